"""Rows of several routes in one ruster: the same results and counts as one ruster for each, and fewer calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from thalweg.contract.batch import Batch
from thalweg.contract.visits import ROWS_IN, WORK, Journey, Visits
from thalweg.engine.block import BlockEngine
from thalweg.errors import DefinitionError
from thalweg.execute.fabric import Fabric
from thalweg.execute.filters import Filter
from thalweg.execute.kernels import routes as kernels
from thalweg.language.bind import bind
from thalweg.language.query import Query, Source
from thalweg.optimize.orders.single import SingleRoute
from thalweg.plan import Operator, Pipeline, Route, Ruster
from thalweg.testing.filters import make_route
from thalweg.testing.joins import Seeded

STREAM = Source(pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("j", pa.int64()), ("c", pa.int32())]), "ts", "ms")
TABLE = Source(pa.schema([("pk", pa.int64()), ("v", pa.int64())]))
FUNCTIONS = {"odd": lambda k: k % 2 == 1, "low": lambda j: j < 12}


def query(stored: bool) -> Query:
    """Filters and stems mix where the stream is not stored; a predicate between the tables cuts the legs."""
    entries = "s [RANGE 50 MILLISECONDS], s [RANGE 50 MILLISECONDS] AS o" if stored else "s [NOW]"
    also = " AND s.k = o.j" if stored else ""
    text = f"""SELECT s.ts AS ts, s.c AS c, t.v AS tv, u.v AS uv FROM {entries}, t, u
        WHERE s.k = t.pk AND s.j = u.pk AND t.v < u.v AND odd(s.k) AND low(s.j){also}"""
    return bind(text, {"s": STREAM, "t": TABLE, "u": TABLE}, FUNCTIONS).query


def routes_of(pipeline: Pipeline, count: int, seed: int) -> tuple[Route, ...]:
    return tuple(make_route(Seeded(1000 * seed + n), pipeline) for n in range(count))


class Together(SingleRoute):
    """The class of a row stands in a column; all classes in one ruster."""

    count, limit = 6, None
    apart = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.routes = routes_of(self.pipeline, self.count, self.seed)
        self.met: list[Journey] = []

    def route(self, batch: Batch) -> list[Ruster]:
        ids = batch.data.column("c").to_numpy() % self.count
        if not self.apart:
            labels = tuple(str(k) for k in range(self.count))
            return [Ruster.mixed(None, self.routes, ids.astype(np.int32), labels, limit=self.limit)]
        return [
            Ruster(np.flatnonzero(ids == k), route, label=str(k), limit=self.limit)
            for k, route in enumerate(self.routes)
        ]

    def observe(self, visits: Visits) -> None:
        self.met += visits.journeys


def run(
    seed: int, stored: bool, apart: bool, limit: float | None, size: int = 300
) -> tuple[Counter[tuple[int, ...]], list[Journey]]:
    random = np.random.default_rng(seed)
    kind = type("Chosen", (Together,), {"apart": apart, "limit": limit})
    tables = {name: pa.table({"pk": random.integers(0, 20, 40), "v": random.integers(0, 9, 40)}) for name in ("t", "u")}
    engine = BlockEngine(query(stored), policy=kind, seed=seed, tables=tables, buffer=16)
    found: Counter[tuple[int, ...]] = Counter()
    for n in range(4):
        columns = {name: random.integers(0, 20, size) for name in ("k", "j")}
        rows = pa.table(
            {"ts": n * size + np.arange(size), **columns, "c": random.integers(0, 99, size).astype(np.int32)}
        )
        found.update(tuple(r.values()) for r in engine.push("s", rows).to_pylist())
    policy = engine.stages[0].policy
    assert isinstance(policy, Together)
    return found, policy.met


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_the_same_comes_of_rows_together_and_apart(seed: int, stored: bool) -> None:
    together, met = run(seed, stored, False, None)
    apart, each = run(seed, stored, True, None)
    assert together == apart
    assert together.total() > 100
    counts = sum(j.counts for j in met)
    expected = np.zeros_like(counts)
    for journey in each:
        expected[int(journey.ruster.label)] += journey.counts[0]
    for each_counts in (counts, expected):
        each_counts[:, :2, WORK] = 0  # a filter behind a stem judges a row again where the buffer was full in between
    assert counts.tolist() == expected.tolist()
    assert sum(j.begun for j in met).tolist() == [
        sum(j.rows for j in each if j.ruster.label == str(k)) for k in range(Together.count)
    ]


@pytest.mark.parametrize("seed", range(6))
def test_a_route_over_its_limit_recalls_its_own_rows(seed: int) -> None:
    everything, _ = run(seed, False, False, None, 4000)
    limited, met = run(seed, False, False, 3.0, 4000)
    assert limited == everything
    assert any(j.recalled for j in met), "nothing was recalled"
    for journey in met:
        assert journey.rows == journey.begun.sum()
        assert (journey.counts[:, :, ROWS_IN].max(axis=1) >= 0).all()


def test_stems_of_all_routes_are_joined_in_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "SELECT s.ts AS ts, s.c AS c FROM s [NOW], t, u WHERE s.k = t.pk AND s.j = u.pk"
    tables = {name: pa.table({"pk": np.arange(20), "v": np.arange(20)}) for name in ("t", "u")}
    engine = BlockEngine(bind(text, {"s": STREAM, "t": TABLE, "u": TABLE}), policy=Together, tables=tables)
    calls: list[int] = []
    drive = kernels.drive
    monkeypatch.setattr(kernels, "drive", lambda *args: calls.append(1) or drive(*args))
    columns = {n: np.arange(50) for n in ("ts", "k", "j")}
    engine.push("s", pa.table(columns | {"c": np.arange(50, dtype=np.int32)}))
    assert len(calls) == 1


def test_a_filter_is_called_once_a_round_for_all_routes() -> None:
    calls: list[int] = []

    def judge(x: pa.Array) -> pa.Array:
        calls.append(len(x))
        return pa.array(np.ones(len(x), bool))

    filters = [Filter(f"f{i}", judge, ("x",), "arrow") for i in range(3)]
    pipeline = Pipeline("s", tuple(Operator(f.name) for f in filters))
    routes = routes_of(pipeline, 40, 0)
    batch = Batch(pa.record_batch({"x": np.arange(400)}))
    ruster = Ruster.mixed(None, routes, (np.arange(400) % 40).astype(np.int32))
    kept, visits = Fabric(pipeline, filters).filter(batch, [ruster])
    assert kept.all()
    assert sum(calls) == 3 * 400
    assert len(calls) <= 9, "rounds times filters, however many routes"
    assert [v.rows_in for v in visits.journeys[0].visits] == [400, 400, 400]


@pytest.mark.parametrize("wrong", [(0,), (1, 0), (0, 1, 2)])
def test_every_route_of_a_ruster_is_checked(wrong: Sequence[int]) -> None:
    pipeline = Pipeline("s", (Operator("a"), Operator("b", after=frozenset({0}))))
    filters = [Filter(n, lambda x: True, ("x",)) for n in "ab"]
    ruster = Ruster.mixed(None, (Route((0, 1)), Route(tuple(wrong))), np.zeros(2, np.int32))
    with pytest.raises(DefinitionError, match="is not allowed"):
        Fabric(pipeline, filters).filter(Batch(pa.record_batch({"x": [1, 2]})), [ruster])


def test_rows_of_several_routes_are_not_profiled_together() -> None:
    with pytest.raises(DefinitionError, match="profiled"):
        Ruster.mixed(None, (Route((0, 1)), Route((1, 0))), np.zeros(2, np.int32), purpose="profile")
