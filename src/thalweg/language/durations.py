"""Lengths of time in words, in microseconds."""

from __future__ import annotations

import re

from thalweg.errors import DefinitionError

UNITS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
"""Microseconds of each unit."""


def unit(word: str) -> int | None:
    """The length of a unit, in the singular or the plural.

    >>> unit("Seconds"), unit("month")
    (1000000, None)
    """
    return UNITS.get(word.lower()) or UNITS.get(word.lower().removesuffix("s"))


def micros(text: str | int, what: str) -> int:
    """A duration such as "10 minutes" in microseconds.

    >>> micros("1 hour 30 minutes", "lateness")
    5400000000
    """
    if isinstance(text, int):
        return text
    parts = re.findall(r"(\d+(?:\.\d+)?)\s*([a-z]+?)s?\b", text.lower())
    left = re.sub(r"(\d+(?:\.\d+)?)\s*([a-z]+)|interval|[\s,]", "", text.lower())
    if not parts or left or any(u not in UNITS for _, u in parts):
        raise DefinitionError(f"{what} '{text}' is not a duration", hint="for example '10 minutes' or '5 seconds'")
    return round(sum(float(n) * UNITS[u] for n, u in parts))
