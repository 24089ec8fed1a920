"""A join of two histories against nested loops, whatever the order in which rows, ends and floors are told."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from thalweg.contract.relation import FOREVER, Closings, Deltas, History, Moves
from thalweg.language.algebra import Leaf, Match
from thalweg.language.scalar.expression import Apply, Field
from thalweg.relate.meet import Meet

LEFT = pa.schema([("l.k", pa.int64()), ("l.s", pa.string()), ("l.v", pa.int64())])
RIGHT = pa.schema([("r.k", pa.int64()), ("r.s", pa.string()), ("r.v", pa.int64())])
SCHEMAS = {"semi": LEFT, "anti": LEFT, "mark": LEFT.append(pa.field("mark", pa.bool_()))}
KINDS = ("inner", "left", "right", "full", "semi", "anti", "mark")
Row = tuple[tuple[Any, ...], int, int]
"""Values, start, end."""


def match(kind: Any, keys: tuple[tuple[str, str], ...], *, condition: bool, null_aware: bool) -> Match:
    schema = SCHEMAS.get(kind, pa.schema([*LEFT, *RIGHT]))
    less = Apply(pa.bool_(), "<=", (Field(pa.int64(), "l.v"), Field(pa.int64(), "r.v"))) if condition else None
    sides = [Leaf(s, None) for s in (LEFT, RIGHT)]  # type: ignore[arg-type]
    return Match(schema, *sides, kind, keys, less, null_aware)


def random_rows(random: np.random.Generator, count: int) -> list[Row]:
    rows = []
    for v in range(count):
        k = None if random.random() < 0.15 else int(random.integers(0, 3))
        s = None if random.random() < 0.15 else str(random.choice(["x", "y"]))
        start = int(random.integers(0, 40))
        end = FOREVER if random.random() < 0.1 else start + int(random.integers(1, 15))
        rows.append(((k, s, v % 5), start, end))
    return rows


def reference(node: Match, left: list[Row], right: list[Row]) -> Counter[Any]:
    """Nested loops over whole histories."""
    places = {"k": 0, "s": 1}
    pairs = [(places[a[2:]], places[b[2:]]) for a, b in node.keys]

    def equal(a: Any, b: Any) -> bool | None:
        return None if a is None or b is None else a == b

    def meets(a: Row, r: Row) -> bool | None:
        if not (a[1] < r[2] and r[1] < a[2]) or (node.condition is not None and not a[0][2] <= r[0][2]):
            return False
        told = [equal(a[0][i], r[0][j]) for i, j in pairs]
        if node.null_aware:
            return told[-1] if all(t is True for t in told[:-1]) else False
        return all(t is True for t in told)

    out: Counter[Any] = Counter()
    found: set[int] = set()
    nulls = (None, None, None)
    for a in left:
        partners = [(k, r) for k, r in enumerate(right) if meets(a, r)]
        unsure = any(meets(a, r) is None for r in right)
        found.update(k for k, _ in partners)
        first = min((max(a[1], r[1]) for _, r in partners), default=None)
        match node.kind:
            case "inner" | "left" | "right" | "full":
                for _, r in partners:
                    time = max(a[1], r[1])
                    out[(*a[0], *r[0]), time, time, min(a[2], r[2])] += 1
                if not partners and node.kind in ("left", "full"):
                    out[(*a[0], *nulls), a[1], a[1], a[2]] += 1
            case "semi" if partners:
                out[a[0], first, a[1], a[2]] += 1
            case "anti" if not partners and not unsure:
                out[a[0], a[1], a[1], a[2]] += 1
            case "mark":
                told = True if partners else None if unsure else False
                out[(*a[0], told), first if partners else a[1], a[1], a[2]] += 1
    for k, r in enumerate(right):
        if node.kind in ("right", "full") and k not in found:
            out[(*nulls, *r[0]), r[1], r[1], r[2]] += 1
    return out


class Side:
    """Feeds a side: rows in random order; ends known at once, or told once the floor has passed them."""

    def __init__(self, rows: list[Row], schema: pa.Schema, *, late_ends: bool) -> None:
        self.rows, self.schema, self.late_ends = rows, schema, late_ends
        self.given: set[int] = set()
        self.told: set[int] = set()

    def moves(self, random: np.random.Generator, floor: int) -> Moves:
        """All rows that begin before the floor, and some others unless ends are told late."""
        due = [n for n, r in enumerate(self.rows) if n not in self.given and r[1] < floor]
        if not self.late_ends:
            rest = [n for n in range(len(self.rows)) if n not in self.given and n not in due]
            due += [n for n in rest if random.random() < 0.2]
        random.shuffle(due)
        self.given.update(due)
        closing = [
            n for n in self.given if n not in self.told and self.rows[n][2] <= floor and self.rows[n][2] < FOREVER
        ]
        self.told.update(closing)
        known = [self.rows[n][2] if not self.late_ends or n in closing else FOREVER for n in due]
        columns = zip(*(self.rows[n][0] for n in due), strict=True) if due else ([],) * len(self.schema)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, self.schema, strict=True)]
        starts = np.array([self.rows[n][1] for n in due], np.int64)
        deltas = Deltas(
            pa.RecordBatch.from_arrays(arrays, schema=self.schema), np.array(due, np.int64), starts,
            np.array(known, np.int64),
        )  # fmt: skip
        later = [n for n in closing if n not in due] if self.late_ends else []
        ends = np.array([self.rows[n][2] for n in later], np.int64)
        return Moves(deltas, Closings(np.array(later, np.int64), ends), floor)


def run(node: Match, left: list[Row], right: list[Row], seed: int, *, late_ends: bool) -> tuple[Counter[Any], History]:
    random = np.random.default_rng(seed)
    sides = (Side(left, LEFT, late_ends=late_ends), Side(right, RIGHT, late_ends=late_ends))
    meet = Meet(node)
    assert isinstance(meet, History)
    floors = [-FOREVER, -FOREVER]
    results: dict[int, Any] = {}
    low = -FOREVER
    for step in range(14):
        floors = [max(f, int(random.integers(0, 6)) + 4 * step) for f in floors]
        if late_ends:
            floors = [min(floors)] * 2
        if step == 13:
            floors = [FOREVER, FOREVER]
        made = meet.step([side.moves(random, floor) for side, floor in zip(sides, floors, strict=True)])
        rows = [tuple(r.values()) for r in made.opened.rows.to_pylist()]
        marks = (made.opened.number, made.opened.time, made.opened.start, made.opened.end)
        for row, number, *told in zip(rows, *(a.tolist() for a in marks), strict=True):
            assert told[1] >= low, "a result began before the floor that was told"
            assert number not in results
            results[number] = (row, *told)
        for number, end in zip(made.closed.number, made.closed.end, strict=True):
            *told, before = results[int(number)]
            assert before == FOREVER
            results[int(number)] = (*told, int(end))
        assert made.floor >= low
        low = made.floor
        if random.random() < 0.4:
            parts = meet.snapshot()
            assert parts == meet.snapshot()
            meet = Meet(node)
            meet.restore(parts)
    return Counter(results.values()), meet


@pytest.mark.parametrize("kind", KINDS)
def test_nested_loops_agree(kind: str) -> None:
    for seed in range(40):
        random = np.random.default_rng(seed)
        keys = ((), (("l.k", "r.k"),), (("l.s", "r.s"),), (("l.k", "r.k"), ("l.s", "r.s")))[seed % 4]
        null_aware = kind in ("semi", "anti", "mark") and bool(keys) and seed % 3 == 0
        node = match(kind, keys, condition=seed % 5 < 2, null_aware=null_aware)
        left, right = (random_rows(random, int(random.integers(0, 20))) for _ in range(2))
        got, meet = run(node, left, right, seed, late_ends=seed % 2 == 1)
        assert got == reference(node, left, right), f"seed {seed}"
        assert meet.size() == 0, "nothing can meet any more"


def test_what_is_kept_is_bounded_by_lifetimes() -> None:
    node = match("full", (("l.k", "r.k"),), condition=False, null_aware=False)
    meet = Meet(node, (False, False))
    empty = Closings(np.empty(0, np.int64), np.empty(0, np.int64))
    sizes = []
    for step in range(300):
        sides = []
        for side, schema in enumerate((LEFT, RIGHT)):
            rows = pa.record_batch(
                [pa.array([step, step + side]), pa.array(["a", "b"]), pa.array([1, 2])], schema=schema
            )
            deltas = Deltas(rows, np.array([2 * step, 2 * step + 1]), np.full(2, step), np.full(2, step + 10))
            sides.append(Moves(deltas, empty, step))
        meet.step(sides)
        sizes.append((meet.size(), sum(len(p) for p in meet.snapshot().values())))
    assert sizes[-1][0] == sizes[30][0]
    assert sizes[-1][1] < 1.2 * sizes[30][1]
