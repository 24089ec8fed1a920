"""Wraps the Markdown of reports at 120 characters. Tables, headings and pictures stay on one line."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable

WIDTH = 120


def wrapped(lines: Iterable[str]) -> str:
    """The lines as one text.

    >>> wrapped(["# Title", "| a | table |", "- " + "word " * 30]).count("\\n")
    4
    """
    out: list[str] = []
    for line in "\n".join(lines).split("\n"):
        if len(line) <= WIDTH or line.startswith(("|", "#", "!")):
            out.append(line)
            continue
        whole = re.sub(r"`[^`]*`", lambda code: code[0].replace(" ", "\0"), line)  # no break inside code
        indent = "  " if line.startswith("- ") else ""
        parts = textwrap.wrap(whole, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
        out += [part.replace("\0", " ") for part in parts]
    return "\n".join(out).rstrip() + "\n"
