"""Which inner joins may go below an outer, semi or anti join that is written before them.

At an instant, (A left join B) join C is (A join C) left join B. Over a whole history it is not: a row of A may meet one of
B before it meets C, and then it has a partner, though (A, C) has none. So C goes below only if every row of C lives
while a row of B does that it may be joined with: either of them is a table, or rows of neither ever leave.
"""

from __future__ import annotations

from collections.abc import Iterator

from thalweg.language.bind.entry import Entry
from thalweg.language.bind.kinds import grows
from thalweg.language.bind.part import Outer, Part
from thalweg.language.bind.times import is_static


def commutes(entry: Entry, outer: Outer) -> bool:
    """Whether an entry may be joined before a match that was written first."""
    if _static(entry):
        return True
    right = list(entries(outer.right))
    return all(map(_static, right)) or all(map(_stays, (entry, *right)))


def entries(part: Part) -> Iterator[Entry]:
    """Every entry of a part, also of what hangs above."""
    yield from part.entries
    for full in part.fulls:
        yield from entries(full.left)
        yield from entries(full.right)
    for outer in part.outers:
        yield from entries(outer.right)


def _static(entry: Entry) -> bool:
    if entry.input is not None:
        return not entry.input.is_stream
    return entry.child is None or is_static(entry.child)


def _stays(entry: Entry) -> bool:
    """Whether no row of an entry ever leaves."""
    if entry.input is not None:
        return not entry.input.is_stream or entry.input.window.kind == "unbounded"
    return entry.child is None or grows(entry.child)
