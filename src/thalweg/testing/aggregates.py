"""Whether a user's own aggregate keeps its contract (thalweg.contract.aggregate)."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

from thalweg.contract.aggregate import GroupAggregate
from thalweg.relate.aggregates.user import restored, saved


def check_aggregate(make: Callable[[], Any], values: Sequence[Any], *, seed: int = 0, rounds: int = 50) -> None:
    """Raise AssertionError with the reason if an aggregate breaks its contract on these values.

    `values` are arguments of `add`: single ones, or tuples for several. Tried are: the order of what is added, removal
    in any order, emptying, merging, and going on from a saved state.

    >>> class Total:
    ...     def __init__(self): self.total = 0
    ...     def add(self, x): self.total += x
    ...     def remove(self, x): self.total -= x
    ...     def value(self): return self.total
    ...     def merge(self, other): self.total += other.total
    >>> check_aggregate(Total, [1, 2, 3])
    """
    chance = random.Random(seed)
    missing = [verb for verb in ("add", "remove", "value", "merge") if not callable(getattr(make(), verb, None))]
    assert isinstance(make(), GroupAggregate), f"it lacks {', '.join(missing)}"
    assert values, "give it some values to try"
    rows = [v if isinstance(v, tuple) else (v,) for v in values]
    empty = make().value()
    for _ in range(rounds):
        kept = [chance.choice(rows) for _ in range(chance.randrange(1, 8))]
        gone = [chance.choice(rows) for _ in range(chance.randrange(0, 8))]
        wanted = _filled(make, kept).value()
        added = [*kept, *gone]
        chance.shuffle(added)
        mixed = _filled(make, added)
        chance.shuffle(gone)
        for row in gone:
            mixed.remove(*row)
        where = f"added {kept} and {gone}, removed {gone}"
        _same(mixed.value(), wanted, f"what was removed, or the order of rows, is still seen: {where}")
        _same(mixed.value(), wanted, f"value() changed it: {where}")
        cut = chance.randrange(len(kept) + 1)
        first, second = _filled(make, kept[:cut]), _filled(make, kept[cut:])
        before = second.value()
        first.merge(second)
        _same(first.value(), wanted, f"merging {kept[:cut]} with {kept[cut:]} is not adding all of them")
        _same(second.value(), before, "merge changed the other object")
        _same(_copied(make, mixed).value(), wanted, f"its saved state is not all of it: {where}")
        for row in kept:
            mixed.remove(*row)
        _same(mixed.value(), empty, f"it is not empty after everything was removed: {where}")


def _filled(make: Callable[[], Any], rows: Sequence[tuple[Any, ...]]) -> Any:
    made = make()
    for row in rows:
        made.add(*row)
    return made


def _copied(make: Callable[[], Any], mine: Any) -> Any:
    return restored(make, saved(mine))


def _same(found: Any, wanted: Any, why: str) -> None:
    both_nan = isinstance(found, float) and isinstance(wanted, float) and math.isnan(found) and math.isnan(wanted)
    assert both_nan or found == wanted, f"{why}: {found!r} instead of {wanted!r}"
