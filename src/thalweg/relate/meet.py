"""Meet: a join of two histories. Two rows meet if their keys agree, the condition holds, and their lifetimes overlap.

Combinations come out of the step that brings their later row, and live where both rows do. What says that no row came
(unmatched rows of outer joins, anti joins, a false mark) comes once none can: when the other side's floor has reached the
row's end. What says that some row came (semi joins, a true mark) comes once no earlier one can, with the time of the
first combination. Both live as the row does, so conditions on a row commute. A row is kept until the other side's floor
reaches its end, so what is kept is bounded by the windows. Lifetimes are intervals: rows that overlap in pairs overlap
all, so a tree of binary joins is the join of all its inputs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from thalweg.contract.relation import FOREVER, Deltas, Ints, Moves
from thalweg.language.algebra import Match
from thalweg.language.scalar.expression import Condition
from thalweg.relate.arrivals import nothing
from thalweg.relate.openends import OpenEnds
from thalweg.relate.segment import Kept, Mask, Segment, candidates, spread
from thalweg.state.keys import KeyCoder
from thalweg.state.store import read_ipc, write_ipc

MARKS = ("\0number", "\0start", "\0end", "\0time", "\0first")
FLAGS = ("\0met", "\0unsure")


class Meet:
    """A `Match` node over results. `closes` says of each side whether its rows may end later than they know."""

    def __init__(self, node: Match, closes: tuple[bool, bool] = (True, True)) -> None:
        self.node = node
        self.closes = closes
        self.schema = node.schema
        self.kind = node.kind
        pairs = [(node.left.schema.field(a).type, node.right.schema.field(b).type) for a, b in node.keys]
        self.coders = [KeyCoder(common(*types)) for types in pairs]
        self.left = Kept(node.left.schema, [a for a, _ in node.keys], self.coders)
        self.right = Kept(node.right.schema, [b for _, b in node.keys], self.coders)
        self.combines = self.kind in ("inner", "left", "right", "full")
        self.ends = OpenEnds()
        self._condition = None if node.condition is None else Condition("ON", node.condition)
        self._floors = (-FOREVER, -FOREVER)
        self._made: list[Deltas] = []

    # Steps

    def step(self, inputs: Sequence[Moves]) -> Moves:
        left, right = inputs
        self._floors = (left.floor, right.floor)
        self._made = []
        for side, (kept, moves) in enumerate(((self.left, left), (self.right, right))):
            kept.close(moves.closed)
            self.ends.close(side, moves.closed)
        fresh = self.left.segment(left.opened)
        for segment in self.right:
            self._pair(fresh, segment)
        self.left.keep(fresh)
        fresh = self.right.segment(right.opened)
        for segment in self.left:
            self._pair(segment, fresh)
        self.right.keep(fresh)
        self._settle()
        closed = self.ends.settled(min(self._floors))
        return Moves(self._gathered(), closed, min(*self._floors, *self._pending()))

    def _gathered(self) -> Deltas:
        made = self._made
        if len(made) == 1:
            return made[0]
        if not made:
            empty = np.empty(0, np.int64)
            return Deltas(nothing(self.schema), empty, empty, empty)
        rows = pa.Table.from_batches([d.rows for d in made]).combine_chunks().to_batches()[0]
        names = ("number", "start", "end", "time")
        return Deltas(rows, *(np.concatenate([getattr(d, n) for d in made]) for n in names))

    # Pairs

    def _pair(self, left: Segment, right: Segment) -> None:
        """Let the rows of two segments meet."""
        if not len(left) or not len(right):
            return
        for a, b in candidates(left, right):
            self._met(left, right, *self._agreeing(left, right, a, b, self.coders))
        if self.node.null_aware:
            for a, b in self._unknown(left, right):
                a, b = self._agreeing(left, right, a, b, self.coders[:-1])
                left.unsure[a] = True

    def _agreeing(
        self, left: Segment, right: Segment, a: Ints, b: Ints, coders: Sequence[KeyCoder]
    ) -> tuple[Ints, Ints]:
        """The pairs that overlap, whose keys are truly equal and for which the condition holds."""
        keep = (left.start[a] < right.end[b]) & (right.start[b] < left.end[a])
        if not self.combines and not self.node.null_aware:
            keep &= ~left.met[a] | (left.first[a] > right.time[b])  # a later partner changes nothing
        a, b = a[keep], b[keep]
        for k, coder in enumerate(coders):
            if not len(a):
                return a, b
            same = (left.keys[k][a] == right.keys[k][b]) & left.valid[k][a] & right.valid[k][b]
            a, b = a[same], b[same]
            if not coder.exact:
                one, other = (n.rows.column(c) for n, c in zip((left, right), self.node.keys[k], strict=True))
                same = coder.same(one.take(pa.array(a)), other.take(pa.array(b)))
                a, b = a[same], b[same]
        if self._condition is None or not len(a):
            return a, b
        arrays = {n: left.rows.column(n).take(pa.array(a)) for n in left.rows.schema.names}
        arrays |= {n: right.rows.column(n).take(pa.array(b)) for n in right.rows.schema.names}
        held = self._condition(arrays, len(a)).fill_null(False).to_numpy(zero_copy_only=False)
        return a[held], b[held]

    def _unknown(self, left: Segment, right: Segment) -> Iterator[tuple[Ints, Ints]]:
        """Pairs of which one side's compared value is NULL: whether they are equal is unknown."""
        for one, other, swap in ((left, right, False), (right, left, True)):
            null = np.flatnonzero(~one.valid[-1])
            some = np.full(len(null), len(other))
            for k, p in spread(np.zeros(len(null), np.int64), some):
                yield (p, null[k]) if swap else (null[k], p)

    def _met(self, left: Segment, right: Segment, a: Ints, b: Ints) -> None:
        if not len(a):
            return
        left.met[a] = True
        right.met[b] = True
        time = np.maximum(left.time[a], right.time[b])
        if not self.combines:
            np.minimum.at(left.first, a, time)
            return
        start = np.maximum(left.start[a], right.start[b])
        columns = [left.rows.column(k).take(pa.array(a)) for k in range(left.rows.num_columns)]
        columns += [right.rows.column(k).take(pa.array(b)) for k in range(right.rows.num_columns)]
        bounds = np.minimum(left.end[a], right.end[b])
        sides = (left.number[a], left.end[a]), (right.number[b], right.end[b])
        self._make(columns, start, time, bounds, *sides)

    def _make(
        self, columns: list[pa.Array], start: Ints, time: Ints, bounds: Ints, left: tuple[Ints, Ints] | None,
        right: tuple[Ints, Ints] | None,
    ) -> None:  # fmt: skip
        sides = (left if self.closes[0] else None, right if self.closes[1] else None)
        number, end = self.ends.open(bounds, *sides, min(self._floors))
        self._made.append(Deltas(pa.RecordBatch.from_arrays(columns, schema=self.schema), number, start, end, time))

    # What waits

    def _settle(self) -> None:
        """Emit what is decided by now, and drop what can meet nothing any more."""
        floor_left, floor_right = self._floors
        if self.combines:
            gone = self.left.release([s.end <= floor_right for s in self.left])
            for segment in gone if self.kind in ("left", "full") else ():
                self._alone(segment, left=True)
        else:
            gone = self.left.release([(s.end <= floor_right) | self._decided(s, floor_right) for s in self.left])
            for segment in gone:
                self._judged(segment)
        gone = self.right.release([s.end <= floor_left for s in self.right])
        for segment in gone if self.kind in ("right", "full") else ():
            self._alone(segment, left=False)

    def _decided(self, segment: Segment, floor: int) -> Mask:
        """Rows of which no later row of the other side changes the outcome."""
        if self.kind == "anti":
            return segment.met | segment.unsure
        return segment.met & ((segment.first <= floor) | (segment.first <= segment.time))

    def _alone(self, segment: Segment, *, left: bool) -> None:
        """Rows of an outer join that met nobody, with NULLs for the other side."""
        which = np.flatnonzero(~segment.met)
        if not len(which):
            return
        alone = segment.take(which)
        own = [alone.rows.column(k) for k in range(alone.rows.num_columns)]
        nulls = [pa.nulls(len(which), f.type) for f in (self.right if left else self.left).schema]
        sides = (alone.number, alone.end)
        self._make(
            own + nulls if left else nulls + own, alone.start, alone.time, alone.end, sides if left else None,
            None if left else sides,
        )  # fmt: skip

    def _judged(self, segment: Segment) -> None:
        """Rows of a semi join, anti join or mark whose outcome is known."""
        if self.kind == "semi":
            which = segment.met
        elif self.kind == "anti":
            which = ~(segment.met | segment.unsure)
        else:
            which = np.ones(len(segment), np.bool_)
        if not which.any():
            return
        chosen = segment.take(np.flatnonzero(which))
        columns = [chosen.rows.column(k) for k in range(chosen.rows.num_columns)]
        if self.kind == "mark":
            columns.append(pa.array(chosen.met, mask=~chosen.met & chosen.unsure))
        time = np.where(chosen.met, chosen.first, chosen.time)
        self._make(columns, chosen.start, time, chosen.end, (chosen.number, chosen.end), None)

    def _pending(self) -> Iterator[int]:
        """The starts of rows that may still come out alone."""
        for kept in self._undecided():
            for segment in kept:
                waits = segment.start[~segment.met] if self.combines else segment.start
                yield int(waits.min(initial=FOREVER))

    def _undecided(self) -> list[Kept]:
        """The sides whose rows come out alone."""
        left = [] if self.kind in ("inner", "right") else [self.left]
        return left + ([self.right] if self.kind in ("right", "full") else [])

    # State

    def size(self) -> int:
        return len(self.left) + len(self.right)

    def waiting(self) -> int:
        """Rows whose outcome is not known yet."""
        return sum(int((~s.met).sum()) if self.combines else len(s) for kept in self._undecided() for s in kept)

    def snapshot(self) -> dict[str, bytes]:
        parts = {"ends": json.dumps(self.ends.snapshot()).encode()}
        for name, kept in (("left", self.left), ("right", self.right)):
            for k, segment in enumerate(kept):
                parts[f"{name}/{k}"] = write_ipc(_written(segment))
        return parts

    def restore(self, parts: Mapping[str, bytes]) -> None:
        self.ends.restore(json.loads(parts["ends"]))
        for name, kept in (("left", self.left), ("right", self.right)):
            kept.segments = []
            while (content := parts.get(f"{name}/{len(kept.segments)}")) is not None:
                kept.segments.append(_read(kept, read_ipc(content)))


def _written(segment: Segment) -> pa.Table:
    marks = [pa.array(a) for a in (segment.number, segment.start, segment.end, segment.time, segment.first)]
    flags = [pa.array(a) for a in (segment.met, segment.unsure)]
    schema = segment.rows.schema
    fields = [*schema, *(pa.field(n, pa.int64()) for n in MARKS), *(pa.field(n, pa.bool_()) for n in FLAGS)]
    return pa.Table.from_arrays([*segment.rows.columns, *marks, *flags], schema=pa.schema(fields))


def _read(kept: Kept, table: pa.Table) -> Segment:
    number, start, end, time, first = (np.array(table[n].to_numpy(), np.int64) for n in MARKS)
    batches = table.select(range(len(kept.schema))).combine_chunks().to_batches()
    segment = kept.segment(Deltas(batches[0] if batches else nothing(kept.schema), number, start, end, time))
    assert (segment.number == number).all()  # sorting is stable
    segment.first = first
    segment.met, segment.unsure = (np.array(table[n].to_numpy(zero_copy_only=False), np.bool_) for n in FLAGS)
    return segment


def common(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """The type in which two key columns compare."""
    if left == right:
        return left
    one, other = pa.schema([("k", left)]), pa.schema([("k", right)])
    return pa.unify_schemas([one, other], promote_options="permissive").field("k").type
