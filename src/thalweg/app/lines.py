"""Finds the line of a TOML text that sets a key. Messages need it, and the standard parser does not keep it.

The text is known to parse, so a light scan is enough: headers and keys, but nothing inside multi-line strings or brackets.
"""

from __future__ import annotations

import re

_KEY = r"""(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')"""
_DOTTED = rf"{_KEY}(?:\s*\.\s*{_KEY})*"
_HEADER = re.compile(rf"^\s*\[\[?\s*({_DOTTED})\s*\]\]?")
_ASSIGN = re.compile(rf"^\s*({_DOTTED})\s*=\s*(.*)$")
_PART = re.compile(_KEY)


def line_of(text: str, path: tuple[str, ...]) -> int:
    """The line that sets a path of keys, or the longest part of it that exists; lines count from 1.

    >>> text = '[streams.a]\\nformat = "rate"\\n\\n[queries.q]\\nsql = \"\"\"\\nx = 1\\n\"\"\"\\ncells = 2\\n'
    >>> line_of(text, ("streams", "a", "format")), line_of(text, ("queries", "q", "cells"))
    (2, 8)
    >>> line_of(text, ("queries", "q", "policy"))
    4
    """
    best, best_line = 0, 1
    header: tuple[str, ...] = ()
    closing: str | None = None
    depth = 0
    for number, line in enumerate(text.splitlines(), 1):
        if closing is not None:
            if closing in line:
                closing = None
            continue
        if depth > 0:
            depth += _brackets(line)
            continue
        found = _HEADER.match(line)
        if found:
            header = _parts(found[1])
            here = header
        else:
            found = _ASSIGN.match(line)
            if not found:
                continue
            here = header + _parts(found[1])
            value = found[2]
            for quotes in ('"""', "'''"):
                if value.startswith(quotes) and quotes not in value[3:]:
                    closing = quotes
            if closing is None:
                depth = _brackets(value)
        common = _common(here, path)
        if common > best and (common == len(here) or common == len(path)):
            best, best_line = common, number
    return best_line


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(p.strip("\"'") for p in _PART.findall(dotted))


def _common(one: tuple[str, ...], two: tuple[str, ...]) -> int:
    count = 0
    for a, b in zip(one, two, strict=False):
        if a != b:
            break
        count += 1
    return count


def _brackets(line: str) -> int:
    """The number of brackets a line leaves open, ignoring strings and comments."""
    bare = re.sub(r"""("(?:\\.|[^"\\])*"|'[^']*')""", "", line).split("#")[0]
    return sum(bare.count(c) for c in "[{") - sum(bare.count(c) for c in "]}")
