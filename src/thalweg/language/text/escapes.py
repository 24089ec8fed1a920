"""What a text between single quotes means to Spark: backslash escapes, and '' for a quote.

The tests compare it with Spark itself, because LIKE patterns and comparisons depend on it.
"""

from __future__ import annotations

import string

_NAMED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
"""Escapes of one character; any other character stands for itself."""


def unescaped(inside: str) -> str:
    r"""The value of a text, given the characters between its quotes.

    >>> print(unescaped(r"it''s \x41 \101 \% \\"))
    it's x41 A \% \
    """
    out: list[str] = []
    i = 0
    while i < len(inside):
        c = inside[i]
        if c == "'":  # the first of two: the tokenizer allows no single one
            i += 1
        elif c == "\\" and i + 1 < len(inside):
            taken, c = _escape(inside, i)
            i += taken - 1
        out.append(c)
        i += 1
    return "".join(out)


def _escape(inside: str, i: int) -> tuple[int, str]:
    """How many characters an escape takes, and what it stands for."""
    for letter, digits in (("u", 4), ("U", 8)):
        code = inside[i + 2 : i + 2 + digits]
        written = inside[i + 1] == letter and len(code) == digits and set(code) <= set(string.hexdigits)
        if written and int(code, 16) <= 0x10FFFF:
            return 2 + digits, chr(int(code, 16))
    octal = inside[i + 1 : i + 4]
    if len(octal) == 3 and octal[0] in "01" and all(d in "01234567" for d in octal[1:]):
        return 4, chr(int(octal, 8))
    return 2, _NAMED.get(inside[i + 1], inside[i + 1])
