"""A query in several cells, whole or in two halves, gives in every batch what one engine gives."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from thalweg.engine.engine import Engine
from thalweg.engine.halves import halves
from thalweg.engine.leaves import times_of
from thalweg.engine.placing import ByValue, spread
from thalweg.execute.shape import Shape
from thalweg.language.algebra import Bound
from thalweg.language.bind import bind
from thalweg.language.query import Source
from thalweg.optimize.placement import Placement, choose
from thalweg.optimize.split import Split, split
from thalweg.state.keys import KeyCoder
from thalweg.state.times import Clock
from thalweg.testing.joincase import Push
from thalweg.testing.queries import make_query
from thalweg.testing.querycase import QueryCase
from thalweg.testing.queryfunctions import FUNCTIONS


class Cells:
    """A query in cells, as Spark runs it: all of them hear of every batch."""

    def __init__(self, bound: Bound, placed: Placement, case: QueryCase, cells: int) -> None:
        self.bound, self.placed, self.case = bound, placed, case
        self.queries = [bound]
        self.engines = [[self.engine(bound) for _ in range(cells)]]

    def engine(self, query: Bound) -> Engine:
        return Engine(query, policy=self.case.policy, tables=self.case.tables if query.sent is None else {})

    def restart(self) -> None:
        for query, engines in zip(self.queries, self.engines, strict=True):
            for k, old in enumerate(engines):
                engines[k] = self.engine(query)
                engines[k].restore(old.snapshot())

    def batch(self, name: str, rows: pa.Table, newest: dict[str, int]) -> list[pa.Table]:
        cells, every = self._cells(name, rows)
        given = []
        for k, engine in enumerate(self.engines[0]):
            own = rows if every else rows.filter(pa.array(cells == k))
            given.append(engine.take_batch({name: own}, newest=newest))
        return self.onward(given, close=False)

    def close(self) -> list[pa.Table]:
        return self.onward([engine.close() for engine in self.engines[0]], close=True)

    def onward(self, given: list[pa.Table], *, close: bool) -> list[pa.Table]:
        return given

    def _cells(self, name: str, rows: pa.Table) -> tuple[np.ndarray, bool]:
        ((number, alias),) = [(n, i.alias) for n, leaf in enumerate(self.bound.leaves)
                              for i in leaf.query.inputs if i.source == name]  # fmt: skip
        placed, query = self.placed, self.bound.leaves[number].query
        columns = {a: c for (n, a), c in placed.columns.items() if n == number}
        kept = frozenset(a for n, a in placed.kept if n == number)
        placing = ByValue(len(self.engines[0]), columns, placed.type, kept).placing(Shape(query), alias)
        cells, goes = placing.base(rows.combine_chunks().to_batches()[0] if len(rows) else
                                   pa.RecordBatch.from_pylist([], schema=rows.schema))  # fmt: skip
        return cells if goes is None else np.where(goes, cells, -1), len(placing.offsets) > 1


class Halves(Cells):
    """Cells below and above: each below sends to each above, in every batch."""

    def __init__(self, bound: Bound, found: Split, case: QueryCase, below: int, above: int) -> None:
        self.queries = list(halves(found.bound, found.node, below))
        super().__init__(self.queries[0], found.placed, case, below)
        self.column = found.column
        self.queries = list(halves(found.bound, found.node, below))
        count = above if found.column is not None else 1
        self.engines.append([self.engine(self.queries[1]) for _ in range(count)])

    def onward(self, given: list[pa.Table], *, close: bool) -> list[pa.Table]:
        newest = {f"cell {k}": engine.passed for k, engine in enumerate(self.engines[0])}
        answer = []
        for k, engine in enumerate(self.engines[1]):
            tables = {f"cell {n}": self._own(table, k) for n, table in enumerate(given)}
            answer.append(engine.take_batch(tables, newest=newest))
            if close:
                answer.append(engine.close())
        return answer

    def _own(self, table: pa.Table, k: int) -> pa.Table:
        if self.column is None:
            return table
        column = table[self.column]
        codes, valid = KeyCoder(column.type).code(column)
        slot = (spread(codes) % np.uint64(len(self.engines[1]))).astype(np.int64)
        return table.filter(pa.array((slot if valid is None else np.where(valid, slot, 0)) == k))


def _rows(tables: list[pa.Table]) -> Counter:
    return Counter(
        tuple(map(repr, row)) for t in tables for row in zip(*(c.to_pylist() for c in t.columns), strict=True)
    )


def _differs(case: QueryCase, below: int, above: int, *, finite: bool) -> str | None:
    """What is wrong; "" for a case that runs in one cell, None if all is well."""
    bound = bind(case.text, case.specs, FUNCTIONS, computed=True)
    reads = Counter(i.source for leaf in bound.leaves for i in leaf.query.inputs)
    if max(reads.values()) > 1 or not any(leaf.query.streams for leaf in bound.leaves):
        return ""
    placed, why = choose(bound, finite=finite)
    found = split(bound, 100 if above else 2, finite=finite)
    many: Cells
    if above and found is not None:
        many, placed, why = Halves(bound, found, case, below, above), found.placed, found.why
    elif placed is not None:
        many = Cells(bound, placed, case, below)
    else:
        return ""
    if any(not i.is_stream and placed.columns[n, i.alias] is not None
           for n, leaf in enumerate(bound.leaves) for i in leaf.query.inputs):  # fmt: skip
        return ""  # the tables of this test are in every cell
    one = Engine(bound, policy=case.policy, tables=case.tables)
    tick, _ = times_of(bound)
    newest: dict[str, int] = {}

    def wrong(when: str, given: list[pa.Table], wanted: pa.Table) -> str | None:
        expected, got = _rows([wanted]), _rows(given)
        said = f"{why}\n{when}: expected {expected - got}, found {got - expected}\n{case.text}"
        return None if expected == got else said

    for k, step in enumerate(case.steps):
        if not isinstance(step, Push):
            many.restart()
            continue
        rows = case.source(step.source).table(step.rows)
        times, valid = Clock(case.source(step.source).spec, tick).read(rows[case.source(step.source).spec.time])
        rows = rows if valid is None else rows.filter(pa.array(valid))  # as the gate before the cells does
        times = times if valid is None else times[valid]
        if len(times):
            newest[step.source] = max(newest.get(step.source, int(times.max())), int(times.max()))
        found_wrong = wrong(f"step {k}", many.batch(step.source, rows, newest),
                            one.take_batch({step.source: rows}, newest=newest))  # fmt: skip
        if found_wrong is not None:
            return found_wrong
    return wrong("at close", many.close(), one.close()) if finite else None


WINDOW = "window(result_time, '10 seconds', '5 seconds')"


@pytest.mark.parametrize("query", [
    f"SELECT {WINDOW} AS at, a.g, b.g AS h, count(*) AS n, count(b.v) AS m, sum(a.v) AS s, min(b.w) AS lo, max(a.w) AS hi "
    f"FROM a [RANGE 6 SECONDS] JOIN b [RANGE 3 SECONDS] ON a.k = b.k GROUP BY {WINDOW}, a.g, b.g",
    f"SELECT {WINDOW} AS at, count(*) AS n FROM a [RANGE 6 SECONDS] GROUP BY {WINDOW}",
    f"SELECT {WINDOW} AS at, avg(b.v) AS m, count(DISTINCT a.g) AS n FROM a [RANGE 6 SECONDS] "
    f"JOIN b [RANGE 3 SECONDS] ON a.k = b.k GROUP BY {WINDOW}",
])  # fmt: skip
@pytest.mark.parametrize("seed", range(4))
def test_windows_of_time_in_partial_groups(query, seed):
    """NULLs, ties and late rows among them."""
    rng = np.random.default_rng(seed)
    types = {"ts": pa.timestamp("us", "UTC"), "k": pa.int64(), "g": pa.int64(), "v": pa.int32(), "w": pa.string()}
    spec = Source(pa.schema(types), time="ts", lateness="2 seconds")
    bound = bind(query, {"a": spec, "b": spec}, computed=True)
    found = split(bound, cells=100, finite=True)
    assert found is not None
    assert ("partial groups" in found.why) == ("avg" not in query)
    case = replace(make_query(0), sources=(), policy="chaos")
    one, two = Engine(bound), Halves(bound, found, case, 3, 2)
    newest: dict[str, int] = {}
    some = 0
    for n in range(24):
        for name in [i.source for leaf in bound.leaves for i in leaf.query.inputs]:
            size = int(rng.integers(0, 30))
            times = np.sort(rng.integers(n * 2 - 3, n * 2 + 2, size)) * 10**6
            columns = {
                c: pa.array([int(v) for v in rng.integers(0, 5, size)], mask=rng.random(size) < 0.1) for c in "kgv"
            }
            columns["w"] = pa.array([f"w{v}" for v in rng.integers(0, 5, size)])
            rows = pa.table({"ts": pa.array(times, pa.int64()), **columns}).cast(spec.schema)
            if size:
                newest[name] = max(newest.get(name, 0), int(times.max()))
            wanted = _rows([one.take_batch({name: rows}, newest=newest)])
            assert wanted == _rows(two.batch(name, rows, newest))
            some += sum(wanted.values())
        if n % 5 == 0:
            two.restart()
    wanted = _rows([one.close()])
    assert wanted == _rows(two.close())
    assert some


@pytest.mark.parametrize("restart", [False, True])
def test_the_half_above_goes_on_after_time_advanced(restart):
    """Only its end says that nothing more comes."""
    types = {"ts": pa.timestamp("us", "UTC"), "v": pa.int64()}
    spec = Source(pa.schema(types), time="ts")
    bound = bind(f"SELECT {WINDOW} AS at, count(*) AS n FROM a [NOW] GROUP BY {WINDOW}", {"a": spec}, computed=True)
    found = split(bound, cells=100, finite=True)
    assert found is not None
    one, two = Engine(bound), Halves(bound, found, replace(make_query(0), sources=()), 2, 1)
    wanted, got = [], []
    for n in range(0, 40, 3):
        rows = pa.table({"ts": pa.array([n * 10**6] * 3, pa.int64()), "v": [n, n + 1, n + 2]}).cast(spec.schema)
        newest = {"a": n * 10**6}
        wanted.append(one.take_batch({"a": rows}, newest=newest))
        got += two.batch("a", rows, newest)
        got.append(two.engines[1][0].advance())
        if restart:
            two.restart()
    assert _rows(wanted) == _rows(got)
    assert sum(_rows(wanted).values()) > 5
    assert _rows([one.close()]) == _rows(two.close())


@pytest.mark.parametrize("finite", [True, False])
@pytest.mark.parametrize("above", [0, 2])
def test_random_queries(above, finite):
    """In cells (above: 0), and in two halves where they can be split."""
    compared = 0
    for seed in range(300):
        wrong = _differs(make_query(seed), 3, above, finite=finite)
        assert not wrong, f"seed {seed}: {wrong}"
        compared += wrong is None
    assert compared >= 30
