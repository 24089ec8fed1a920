"""Rows in two phases: the same answer, exactly the rows that no logical filter drops are joined, nothing looked up twice."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from thalweg.contract.batch import Batch
from thalweg.contract.visits import DROPPED, PASSED, ROWS_IN, SURVIVORS, UNTRIED, Journey, Visits
from thalweg.engine.block import BlockEngine
from thalweg.errors import DefinitionError
from thalweg.language.bind import bind
from thalweg.language.query import Query, Source
from thalweg.optimize.orders.chaos import Chaos
from thalweg.optimize.orders.single import SingleRoute
from thalweg.plan import Pipeline, Route, Ruster
from thalweg.plan.ruster import Also
from thalweg.testing.joinrun import run
from thalweg.testing.joins import make_case

STREAM = Source(pa.schema([("ts", pa.int64()), ("x", pa.int64()), ("y", pa.int64()), ("z", pa.int64())]), "ts", "ms")
PAIRS = Source(pa.schema([("p", pa.int64()), ("q", pa.int64())]))
ONE = Source(pa.schema([("p", pa.int64())]))
# The graph of figure 5.3(a): s - r2, s - r3, r3 - r4, r3 - r5, r5 - r6. Each stem's key, and the column it comes from.
TREE = """SELECT s.ts AS ts FROM s [NOW], r2, r3, r4, r5, r6
    WHERE s.x = r2.p AND s.y = r3.p AND r3.q = r4.p AND r3.q = r5.p AND r5.q = r6.p"""
SHAPES = {"r2": ONE, "r3": PAIRS, "r4": ONE, "r5": PAIRS, "r6": ONE}
ORDERS = [(0, 1, 2, 3, 4), (1, 2, 0, 3, 4), (1, 3, 4, 2, 0)]


def tree() -> Query:
    return bind(TREE, {"s": STREAM, **SHAPES}).query


def tables(seed: int = 0, rows: int = 30) -> dict[str, pa.Table]:
    random = np.random.default_rng(seed)
    return {
        name: pa.table({c: random.integers(0, 40, rows) for c in shape.schema.names}) for name, shape in SHAPES.items()
    }


def stream(count: int, seed: int = 0) -> pa.Table:
    random = np.random.default_rng(seed)
    return pa.table({"ts": np.arange(count), **{c: random.integers(0, 40, count) for c in "xyz"}})


class Given(SingleRoute):
    """One route, in one phase or two; keeps the journeys."""

    way: Route | None = None
    phases = 2
    also: Also = "all"
    purpose = "work"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.met: list[Journey] = []

    def route(self, batch: Batch) -> list[Ruster]:
        also = self.also if self.purpose == "profile" else frozenset[int]()
        return [Ruster(None, self.way or self.plan.route, self.purpose, also, phases=self.phases)]  # type: ignore[arg-type]

    def observe(self, visits: Visits) -> None:
        self.met += visits.journeys


def travel(
    query: Query, data: dict[str, pa.Table], rows: pa.Table, order: tuple[int, ...], index: str = "hash", **options: object
) -> tuple[Counter[int], list[Journey]]:  # fmt: skip
    """The results, and what rows of `s` met on the way."""
    met: list[Journey] = []

    class Chosen(Given):
        def __post_init__(self) -> None:
            super().__post_init__()
            self.met, self.way = met, Route(order)

    for name, value in options.items():
        setattr(Chosen, name, value)
    engine = BlockEngine(query, policy=Chosen, tables=data, index=index)
    found = [engine.push("s", rows), engine.close()]
    return Counter(ts for table in found for ts in table.column("ts").to_pylist()), met


def passes(data: dict[str, pa.Table], row: dict[str, int]) -> list[bool]:
    """By definition, whether each logical filter of `s` passes a row."""
    records = {name: table.to_pylist() for name, table in data.items()}
    r2 = any(r["p"] == row["x"] for r in records["r2"])
    r3 = [r for r in records["r3"] if r["p"] == row["y"]]
    r4 = any(a["q"] == b["p"] for a, b in product(r3, records["r4"]))
    r5 = [b for a, b in product(r3, records["r5"]) if a["q"] == b["p"]]
    r6 = any(a["q"] == b["p"] for a, b in product(r5, records["r6"]))
    return [r2, bool(r3), r4, bool(r5), r6]


@pytest.mark.parametrize("index", ["hash", "bits"])
@pytest.mark.parametrize("order", ORDERS)
def test_profiled_rows_are_tried_on_every_logical_filter(order: tuple[int, ...], index: str) -> None:
    data, rows = tables(1), stream(300, 2)
    _, (journey,) = travel(tree(), data, rows, order, index, purpose="profile")
    assert journey.probed is not None
    wanted = [[PASSED if p else DROPPED for p in passes(data, row)] for row in rows.to_pylist()]
    assert journey.probed.tolist() == wanted
    drops = np.array(wanted) == DROPPED
    left = np.ones(len(rows), np.bool_)
    for probe, op in zip(journey.probes, order, strict=True):
        assert (probe.operator, probe.rows, probe.extra) == (op, left.sum(), (~left).sum())
        left &= ~drops[:, op]
        assert probe.survivors == left.sum()


@pytest.mark.parametrize("order", ORDERS)
def test_only_rows_that_pass_every_logical_filter_are_joined(order: tuple[int, ...]) -> None:
    data, rows = tables(3), stream(400, 4)
    two, (probed,) = travel(tree(), data, rows, order)
    one, (joined,) = travel(tree(), data, rows, order, phases=1)
    assert two == one
    assert sum(two.values()) > 0
    assert not joined.probes
    dropped = 0
    for probe, visit in zip(probed.probes, probed.visits, strict=False):
        assert probe.extra == 0
        assert visit.rows_in >= probe.rows - probe.survivors
        dropped += probe.rows - probe.survivors
    survivors = sum(all(passes(data, row)) for row in rows.to_pylist())
    assert probed.probes[-1].survivors == survivors == len(rows) - dropped
    assert probed.counts is not None
    counts = probed.counts[0]
    assert counts[order[0], ROWS_IN] == len(rows), "every row came to the first stem, dropped there or not"
    assert counts[order[0], SURVIVORS] == len(rows) - (probed.probes[0].rows - probed.probes[0].survivors)


@pytest.mark.parametrize(("also", "tried"), [("next", 1), (frozenset({4}), 1), (frozenset(), 0)])
def test_dropped_rows_are_tried_as_far_as_the_policy_asks(also: Also, tried: int) -> None:
    _, (journey,) = travel(tree(), tables(5), stream(300, 6), ORDERS[0], purpose="profile", also=also)
    assert journey.probed is not None
    for bits in journey.probed:
        first = next((k for k, bit in enumerate(bits) if bit == DROPPED), None)
        if first is not None:
            after = bits[first + 1 :]
            assert (after != UNTRIED).sum() == (tried if first < 4 else 0)


def test_the_join_goes_on_from_the_match_that_was_found() -> None:
    """Each row has one candidate in each of three tables: looked up once, and read once by each phase."""
    text = "SELECT s.ts AS ts FROM s [NOW], t, u, v WHERE s.x = t.p AND s.y = u.p AND s.z = v.p"
    query = bind(text, {"s": STREAM, "t": ONE, "u": ONE, "v": ONE}).query
    data = {name: pa.table({"p": np.arange(40)}) for name in "tuv"}
    found, (journey,) = travel(query, data, stream(200), (0, 1, 2))
    assert sum(found.values()) == 200
    assert journey.counts is not None
    assert [v.buckets for v in journey.visits] == [200, 200, 200]
    assert all(v.hashes == 200 for v in journey.visits)
    assert [p.survivors for p in journey.probes] == [200] * 3
    one, (joined,) = travel(query, data, stream(200), (0, 1, 2), phases=1)
    assert one == found
    assert [v.buckets for v in joined.visits] == [200, 200, 200]


def test_what_must_come_first_is_joined_before_its_partial_results_are_probed() -> None:
    """A window that is not the root of the star: r joins s first, then every pair is a row for the others (5.2.2)."""
    text = """SELECT r.ts AS ts FROM r [RANGE 1 SECONDS], s [RANGE 1 SECONDS], t, u
        WHERE r.x = s.x AND s.y = t.p AND s.z = u.p"""
    query = bind(text, {"r": STREAM, "s": STREAM, "t": ONE, "u": ONE}).query
    data = {name: pa.table({"p": np.arange(20)}) for name in "tu"}
    met: list[Journey] = []

    class Watched(Given):
        def observe(self, visits: Visits) -> None:
            if self.pipeline.stream == "r":
                met.extend(visits.journeys)

    engine = BlockEngine(query, policy=Watched, tables=data)
    engine.push("s", stream(60, 7))
    engine.push("r", stream(60, 8))
    (journey,) = met
    pairs = next(v for v in journey.visits if v.operator == 0).rows_out
    assert [p.operator for p in journey.probes] == [1, 2]
    assert journey.probes[0].rows == pairs > 60


class Probing(Chaos):
    """Random routes, all in two phases."""

    def route(self, batch: Batch) -> list[Ruster]:
        rusters = super().route(batch)
        return [replace(r, phases=2, limit=None, turn=None) if r.ids is None else r for r in rusters]


@pytest.mark.parametrize("seed", range(700_000, 700_024))
def test_random_joins_give_the_same_rows(seed: int) -> None:
    case = make_case(seed, policies=("written",))
    assert Counter(map(repr, run(case, policy=Probing).rows)) == Counter(map(repr, run(case).rows))


def test_rows_of_several_routes_are_not_probed_together() -> None:
    routes = (Route((0, 1)), Route((1, 0)))
    with pytest.raises(DefinitionError, match="can't be probed before they are joined together"):
        Ruster(None, routes[0], routes=routes, labels=("", ""), ids=np.zeros(2, np.int32), phases=2)


def test_pipelines_without_a_choice_are_joined_as_ever() -> None:
    query = bind("SELECT s.ts AS ts FROM s [NOW], t WHERE s.x = t.p", {"s": STREAM, "t": ONE}).query
    assert isinstance(BlockEngine(query, tables={"t": pa.table({"p": [1]})}).stages[0].pipeline, Pipeline)
    found, (journey,) = travel(query, {"t": pa.table({"p": np.arange(20)})}, stream(100), (0,))
    assert 0 < sum(found.values()) < 100
    assert not journey.probes
