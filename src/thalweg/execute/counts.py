"""An engine's counts over several lives: what a task added, and the sum of what tasks added.

An engine without state counts from its birth, in one worker of many: its totals say nothing of the others'. What each
task added can be summed over all of them. What is there now (rows stored, a watermark) is not summed: the newest holds.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

PRESENT = frozenset({"stored", "bytes", "slices", "index bytes", "waiting", "watermark"})
"""Of `Engine.stats()`, what tells of now and not of all that came."""


def since(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """What was added to `Engine.stats()` between two looks; an empty look is that of an engine not yet made.

    >>> since({"rows in": 3, "stored": 3}, {"rows in": 5, "stored": 2})
    {'rows in': 2, 'stored': 2}
    """
    return _each(now, before, operator.sub)


def added(total: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Totals with what a task added.

    >>> added({"rows in": 3, "stored": 3}, {"rows in": 2, "stored": 2})
    {'rows in': 5, 'stored': 2}
    """
    return _each(more, total, operator.add)


def _each(newer: Mapping[str, Any], older: Mapping[str, Any], how: Callable[[Any, Any], Any]) -> dict[str, Any]:
    made = {}
    for name, value in newer.items():
        if isinstance(value, Mapping):
            made[name] = _each(value, older.get(name, {}), how)
        else:
            made[name] = value if name in PRESENT else how(value, older.get(name, 0))
    return made
