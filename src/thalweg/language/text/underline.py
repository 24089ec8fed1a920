"""A place in the user's own text: a span of characters, shown as its line with carets beneath.

Parsing and binding keep the positions at which everything was written, so an error always points at what the user
typed.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

from thalweg.errors import QueryError

_WIDEST = 110
"""Longer lines are cut around the place, so that the carets stay below it in a terminal."""


@dataclass(frozen=True, slots=True)
class Span:
    """Characters [start, end) of a text.

    >>> Span(7, 10) | Span(14, 15)
    Span(start=7, end=15)
    """

    start: int
    end: int

    def __or__(self, other: Span) -> Span:
        return Span(min(self.start, other.start), max(self.end, other.end))


def underline(text: str, span: Span) -> str:
    """The line of a span with carets beneath it; if the span covers several lines, the first.

    >>> print(underline("SELECT *\\nFROM flight f", Span(14, 20)))
    line 2, column 6
      FROM flight f
           ^^^^^^
    """
    start = max(0, min(span.start, len(text)))
    first = text.rfind("\n", 0, start) + 1
    last = text.find("\n", start)
    line = text[first : last if last >= 0 else len(text)].rstrip("\r")
    begin = min(start - first, len(line))
    end = max(begin + 1, min(span.end - first, len(line)))
    if begin < len(line):
        end = max(begin + 1, len(line[:end].rstrip()))
    head = f"line {text.count(chr(10), 0, start) + 1}, column {begin + 1}"
    cut = max(0, begin - _WIDEST // 2) if len(line) > _WIDEST else 0
    shown = line[cut : cut + _WIDEST]
    before, after = "…" if cut else "", "…" if cut + _WIDEST < len(line) else ""
    gap = "".join(c if c == "\t" else " " * _width(c) for c in before + line[cut:begin])
    carets = "^" * (sum(_width(c) for c in line[begin : min(end, cut + _WIDEST)]) or 1)
    return f"{head}\n  {before}{shown}{after}\n  {gap}{carets}"


def _width(character: str) -> int:
    """Cells that a character takes in a terminal."""
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def misread(text: str, span: Span | None, message: str, hint: str | None = None) -> QueryError:
    """The error for one place in the text; without a span, for the text as a whole."""
    return QueryError(message, hint=hint, where=underline(text, span) if span else None)
