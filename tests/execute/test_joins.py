"""Joins through the fabric: routes that are not allowed are refused, and recorded costs give the same decisions."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from thalweg.contract.batch import Batch
from thalweg.engine.block import BlockEngine
from thalweg.errors import DefinitionError
from thalweg.execute.meter import RecordedMeter
from thalweg.language.bind import bind
from thalweg.language.query import Query, Source
from thalweg.optimize.orders.single import SingleRoute
from thalweg.plan import Route, Ruster

STREAM = Source(pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("j", pa.int64())]), "ts", "ms")
TABLE = Source(pa.schema([("pk", pa.int64())]))


def two_tables(where: str = "", functions: dict[str, object] | None = None) -> Query:
    text = f"SELECT s.ts AS ts FROM s [NOW], t, u WHERE s.k = t.pk AND s.j = u.pk{where}"
    return bind(text, {"s": STREAM, "t": TABLE, "u": TABLE}, functions).query  # type: ignore[arg-type]


def rows(count: int, seed: int = 0) -> pa.Table:
    random = np.random.default_rng(seed)
    return pa.table({"ts": np.arange(count), "k": random.integers(0, 40, count), "j": random.integers(0, 40, count)})


@pytest.mark.parametrize("route", [(0,), (1,), (0, 0), (0, 1, 1), (0, 2), ()])
def test_a_route_that_is_not_allowed_is_refused_not_travelled(route: tuple[int, ...]) -> None:
    class Wrong(SingleRoute):
        def route(self, batch: Batch) -> list[Ruster]:
            return [Ruster(None, Route(route))]

    tables = {name: pa.table({"pk": np.arange(20)}) for name in "tu"}
    engine = BlockEngine(two_tables(), policy=Wrong, tables=tables)
    with pytest.raises(DefinitionError, match="is not allowed for tuples of 's'"):
        engine.push("s", rows(50))


def test_a_route_is_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = BlockEngine(
        two_tables(), policy="written", tables={name: pa.table({"pk": np.arange(20)}) for name in "tu"}
    )
    pipeline = engine.stages[0].pipeline
    asked: list[Route] = []
    allows = type(pipeline).allows
    monkeypatch.setattr(type(pipeline), "allows", lambda self, route: asked.append(route) or allows(self, route))
    for _ in range(5):
        engine.push("s", rows(50))
    assert asked == [pipeline.written]


@pytest.mark.parametrize("policy", ["agreedy", "auto", "lottery", "cbr", "mesh"])
def test_joins_with_filters_in_the_cell_decide_alike_on_recorded_costs(policy: str) -> None:
    """The order of two Python filters and two stems, none of whose real times is read."""

    def decisions() -> list[dict[str, object]]:
        functions = {"odd": lambda k: k % 2 == 1, "low": lambda j: j < 35}
        query = two_tables(" AND odd(s.k) AND low(s.j)", functions)
        names = [op.name for op in BlockEngine(query).stages[0].pipeline.operators]
        assert len(names) == 4
        meters = {"s": RecordedMeter([3e-6, 1e-7, 2e-8, 5e-8])}
        tables = {name: pa.table({"pk": np.arange(size)}) for name, size in (("t", 30), ("u", 4))}
        engine = BlockEngine(query, policy=policy, tables=tables, meters=meters)
        for n in range(40):
            engine.push("s", rows(1000, seed=n))
        events = [e.record() for e in engine.events()]
        stats = engine.stats()["inputs"]["s"]["operators"]
        seconds = {name: line["seconds"] for name, line in stats.items()}
        assert seconds[names[0]] == pytest.approx(3e-6 * stats[names[0]]["work"])
        assert seconds["u"] == pytest.approx(5e-8 * stats["u"]["work"])
        return [*events, {"seconds": seconds, "explained": str(engine.explain()["s"])}]

    first, again = decisions(), decisions()
    assert first == again
    if policy in ("agreedy", "auto"):
        assert len(first) > 1, "nothing was decided"
