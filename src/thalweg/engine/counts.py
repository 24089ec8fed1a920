"""Counts: of the tuples of each class, and those of an engine over several lives: what a task added, and the sum of it.

An engine without state counts from its birth, in one worker of many: its totals say nothing of the others'. What each
task added can be summed over all of them. What is there now (rows stored, a watermark) is not summed: the newest holds.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from thalweg.contract.visits import Journey

ByClass = dict[str, list[int]]
"""For each class of tuples: its rows, then the rows that came to each operator, then those that left it."""
MOST_CLASSES = 64
"""Classes that are counted one by one; a plan has a handful."""
PRESENT = frozenset({"stored", "bytes", "slices", "index bytes", "waiting", "watermark"})
"""Of `Engine.stats()`, what tells of now and not of all that came."""


def count_classes(classes: ByClass, journeys: Iterable[Journey], operators: int) -> None:
    """Add what the rusters of each class met; those without a class are passed over."""
    for journey in journeys:
        for _, label, rows, visits in journey.by_route():
            if not label or (label not in classes and len(classes) >= MOST_CLASSES):
                continue
            counts = classes.setdefault(label, [0] * (2 * operators + 1))
            counts[0] += rows
            for v in visits:
                counts[1 + v.operator] += v.rows_in
                counts[1 + operators + v.operator] += v.rows_out


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
