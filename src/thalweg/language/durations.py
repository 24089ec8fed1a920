"""Lengths of time in words, in microseconds."""

from __future__ import annotations

import re
from datetime import timedelta

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


class Micros(int):
    """A length of time that is known to count microseconds."""


Duration = str | timedelta | int
"""A length of time as users give it: words, a timedelta, or 0."""


def shown(length: int) -> str:
    """Microseconds in words, in the largest unit that fits.

    >>> shown(5_400_000_000), shown(0)
    ('90 minutes', '0 seconds')
    """
    units = [(u, s) for u, s in UNITS.items() if length % s == 0 and u != "week"]
    unit, size = units[-1] if length else ("second", 1)
    return f"{length // size} {unit}{'' if length == size else 's'}"


def micros(text: Duration, what: str) -> Micros:
    """A duration such as "10 minutes" in microseconds. A bare number other than 0 could be anything and is refused.

    >>> micros("1 hour 30 minutes", "lateness")
    5400000000
    """
    if isinstance(text, Micros) or (isinstance(text, int) and text == 0):
        return Micros(text)
    if isinstance(text, timedelta):
        return Micros(text // timedelta(microseconds=1))
    if not isinstance(text, str):
        raise DefinitionError(
            f"{what}={text!r} has no unit", hint=f'write {what}="{text} seconds", or whatever it counts'
        )
    parts = re.findall(r"(\d+(?:\.\d+)?)\s*([a-z]+?)s?\b", text.lower())
    left = re.sub(r"(\d+(?:\.\d+)?)\s*([a-z]+)|interval|[\s,]", "", text.lower())
    if not parts or left or any(u not in UNITS for _, u in parts):
        raise DefinitionError(f"{what} '{text}' is not a duration", hint="for example '10 minutes' or '5 seconds'")
    return Micros(round(sum(float(n) * UNITS[u] for n, u in parts)))
