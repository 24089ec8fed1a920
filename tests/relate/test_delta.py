"""Lifetimes against the windows' contents: at sampled instants, the results that live are the join of what windows hold."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import thalweg as tw
from thalweg.contract.relation import FOREVER, Closings, Deltas

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("id", pa.int64())])
Row = tuple[int, int, int]
"""Time, key, id."""


class Living:
    """A sink that remembers every result and its lifetime."""

    def __init__(self) -> None:
        self.results: dict[int, tuple[tuple[int, ...], int, int]] = {}
        self.open: set[int] = set()

    def opened(self, deltas: Deltas) -> None:
        rows = [tuple(r.values()) for r in deltas.rows.to_pylist()]
        for row, number, start, end in zip(rows, deltas.number, deltas.start, deltas.end, strict=True):
            assert int(number) not in self.results
            assert start < end
            self.results[int(number)] = (row, int(start), int(end))

    def closed(self, closings: Closings) -> None:
        for number, end in zip(closings.number.tolist(), closings.end.tolist(), strict=True):
            row, start, before = self.results[number]
            assert before == FOREVER, "closed twice, or though the end was known"
            assert start < end
            self.results[number] = (row, start, end)

    def at(self, instant: int) -> Counter[tuple[int, ...]]:
        return Counter(row for row, start, end in self.results.values() if start <= instant < end)


def window(random: np.random.Generator, ordered: bool) -> tuple[str, int]:
    kinds = ["RANGE", "RANGE", "UNBOUNDED", "NOW"] + ["ROWS", "PARTITION"] * 2 * ordered
    return str(random.choice(kinds)), int(random.integers(1, 12))


def text_of(kind: str, size: int) -> str:
    texts = {"RANGE": f"[RANGE {size} MICROSECONDS]", "ROWS": f"[ROWS {size}]", "NOW": "[NOW]"}
    texts |= {"UNBOUNDED": "[UNBOUNDED]", "PARTITION": f"[PARTITION BY k ROWS {size}]"}
    return texts[kind]


def content(rows: list[Row], kind: str, size: int, instant: int) -> list[Row]:
    """What a window holds at an instant, the plain way. Rows are in the order (time, arrival)."""
    past = [r for r in rows if r[0] <= instant]
    if kind in ("RANGE", "NOW"):
        return [r for r in past if r[0] >= instant - (size if kind == "RANGE" else 0)]
    if kind == "ROWS":
        return past[-size:]
    if kind == "PARTITION":
        return [r for key in {r[1] for r in past} for r in [p for p in past if p[1] == key][-size:]]
    return past


@pytest.mark.parametrize("seed", range(60))
def test_what_lives_is_the_join_of_what_windows_hold(seed: int) -> None:
    random = np.random.default_rng(seed)
    names = "abc"[: int(random.integers(2, 4))]
    ordered = seed % 2 == 1
    windows = {n: window(random, ordered) for n in names}
    same = seed % 5 == 4  # a self-join
    froms = ", ".join(f"{'a' if same else n} {text_of(*windows[n])} AS {n}" for n in names)
    where = " AND ".join(f"a.k = {n}.k" for n in names[1:])
    text = f"SELECT {', '.join(f'{n}.id AS {n}' for n in names)} FROM {froms} WHERE {where}"
    sources = {
        n: tw.Source(SCHEMA, time="ts", unit="us", lateness="5 microseconds") for n in (names[:1] if same else names)
    }
    rows: dict[str, list[Row]] = {n: [] for n in sources}
    living = Living()

    def make() -> tw.Engine:
        policy = "chaos" if seed % 3 == 0 else "auto"
        return tw.Engine(text, sources, policy=policy, slice_rows=4, buffer=7, deltas=living)

    engine, clock = make(), 0
    for _ in range(12):
        clock += int(random.integers(0, 8))
        for n in sources:
            count = int(random.integers(0, 6))
            times = random.integers(max(clock - 4, 0), clock + 1, count)
            new = [(int(t), int(random.integers(0, 3)), len(rows[n]) + k) for k, t in enumerate(times)]
            rows[n] += new
            columns = {c: [r[at] for r in new] for at, c in enumerate(SCHEMA.names)}
            engine.push(n, pa.table(columns, schema=SCHEMA))
        if random.random() < 0.6:
            engine.advance(max(clock - 4, 0))
        if random.random() < 0.3:
            state, engine = engine.snapshot(), make()
            engine.restore(state)
    engine.close()
    held: dict[str, list[Row]] = {n: sorted(rows["a" if same else n], key=lambda r: r[0]) for n in names}
    lived = 0
    for instant in range(clock + 15):
        contents = [content(held[n], *windows[n], instant) for n in names]
        wanted: Counter[Any] = Counter(
            tuple(r[2] for r in combination)
            for combination in product(*contents)
            if len({r[1] for r in combination}) == 1
        )
        assert living.at(instant) == wanted, f"seed {seed}, instant {instant}: {text}"
        lived += len(wanted)
    assert lived or "NOW" in text


def test_ends_are_known_at_once_unless_windows_count_rows() -> None:
    source = tw.Source(SCHEMA, time="ts", unit="us")
    living = Living()
    text = "SELECT a.id AS x, b.id AS y FROM a [RANGE 10 MICROSECONDS], b [{}] WHERE a.k = b.k"
    engine = tw.Engine(text.format("RANGE 3 MICROSECONDS"), {"a": source, "b": source}, deltas=living)
    engine.push("a", pa.table([[5], [1], [0]], schema=SCHEMA))
    found = engine.push("b", pa.table([[7], [1], [0]], schema=SCHEMA))
    assert found.num_rows == 1, "the plain results come all the same"
    assert list(living.results.values()) == [((0, 0), 7, 11)]

    living = Living()
    engine = tw.Engine(text.format("ROWS 1"), {"a": source, "b": source}, deltas=living)
    engine.push("a", pa.table([[5], [1], [0]], schema=SCHEMA))
    engine.push("b", pa.table([[7], [1], [0]], schema=SCHEMA))
    engine.advance(8)
    assert list(living.results.values()) == [((0, 0), 7, FOREVER)]
    engine.push("b", pa.table([[9], [2], [1]], schema=SCHEMA))
    engine.advance(10)
    assert list(living.results.values()) == [((0, 0), 7, 9)]
