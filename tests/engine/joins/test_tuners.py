"""Every assessment, schedule and migration, rival index and chaos: the rows are those of the definition."""

from __future__ import annotations

import json
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.engine.joins.check import check

from thalweg.contract.batch import Batch
from thalweg.engine import machine
from thalweg.engine.block import BlockEngine
from thalweg.errors import DefinitionError
from thalweg.language.bind import bind
from thalweg.language.query import Source
from thalweg.optimize.indexes.amri import ASSESSMENTS, Amri
from thalweg.optimize.indexes.migrate import MIGRATIONS
from thalweg.optimize.indexes.schedule import SCHEDULES
from thalweg.optimize.indexes.tuner import make
from thalweg.optimize.orders.chaos import ChaosTuner
from thalweg.optimize.orders.single import SingleRoute
from thalweg.plan import Plan, Route, Ruster
from thalweg.plan.layout import Layout
from thalweg.profile.patterns.stemfacts import Probe, StemFacts
from thalweg.profile.prices import RECORDED, Prices
from thalweg.testing.joins import make_case

EVERY = list(product(ASSESSMENTS, SCHEDULES, MIGRATIONS))


def hasty(assessment: str, schedule: str, migration: str, **options: Any) -> Amri:
    """Decides every few requests and for any gain, so that small cases see many layouts."""
    return Amri(assessment, schedule, migration, window=6, period=12, gain=0.0, patience=0, budget=None, **options)


@pytest.mark.parametrize(("assessment", "schedule", "migration"), EVERY, ids=["-".join(e) for e in EVERY])
def test_every_combination(assessment: str, schedule: str, migration: str, oracle: Any) -> None:
    first = 90_000 + 4 * EVERY.index((assessment, schedule, migration))
    for seed in range(first, first + 4):
        check(make_case(seed), oracle, tuner=partial(hasty, assessment, schedule, migration))


@pytest.mark.parametrize("hashes", [1, 2, 3, 7])
def test_hash_indexes_by_frequency(hashes: int, oracle: Any) -> None:
    for seed in range(91_000 + 10 * hashes, 91_000 + 10 * hashes + 6):
        check(make_case(seed), oracle, tuner=partial(hasty, "sria", "continuous", "partial", hashes=hashes))


def test_under_chaos(oracle: Any) -> None:
    found = [check(make_case(seed), oracle, tuner=partial(ChaosTuner, seed, 0.7)) for seed in range(92_000, 92_020)]
    assert sum(found) > 100


@pytest.mark.long
def test_many(oracle: Any) -> None:
    for seed in range(95_000, 97_000):
        check(make_case(seed), oracle, tuner=partial(hasty, *EVERY[seed % len(EVERY)]))


# --- a stream whose access patterns change ----------------------------------------------------------------------------

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("l", pa.int64())])
TEXT = """
    SELECT r.ts AS a, s.ts AS b, t.ts AS c
    FROM r [RANGE 400 MILLISECONDS], s [RANGE 400 MILLISECONDS], t [RANGE 400 MILLISECONDS]
    WHERE r.k = s.k AND s.l = t.l AND r.l = t.k
"""


def engine(**options: Any) -> BlockEngine:
    sources = {n: Source(SCHEMA, time="ts", unit="ms") for n in "rst"}
    return BlockEngine(bind(TEXT, sources), slice_rows=16, **options)


def fed(e: BlockEngine, first: int, last: int) -> pa.Table:
    random = np.random.default_rng([5, first])
    found = []
    for at in range(first, last, 50):
        for name in "rst":
            times = np.arange(at, at + 50)
            keys = {c: random.integers(0, 200 if (at // 500) % 2 == (c == "k") else 6, 50) for c in ("k", "l")}
            found.append(e.push(name, pa.table({"ts": times, **keys})))
        e.advance()
    return pa.concat_tables(found)


def rows(*tables: pa.Table) -> list[tuple[int, ...]]:
    return sorted(tuple(r.values()) for t in tables for r in t.to_pylist())


TUNERS = {
    "cdia": lambda: Amri(window=300, period=600, migration="partial", gain=0.0),
    "hashes": lambda: Amri("sria", window=300, period=600, hashes=1, gain=0.0, insurance=0.0, patience=0),
    "chaos": lambda: ChaosTuner(3),
}


@pytest.mark.parametrize("name", TUNERS)
def test_a_restart_changes_neither_answers_nor_decisions(name: str) -> None:
    plain = engine()
    wanted = [fed(plain, 0, 1_000), fed(plain, 1_000, 2_000)]
    whole = engine(index=TUNERS[name]())
    straight = [fed(whole, 0, 1_000), fed(whole, 1_000, 2_000)]
    one = engine(index=TUNERS[name]())
    first = fed(one, 0, 1_000)
    before = one.events()
    other = engine(index=TUNERS[name]())
    other.restore(one.snapshot())
    second = fed(other, 1_000, 2_000)
    assert len(rows(*wanted)) > 100
    assert rows(*wanted) == rows(*straight) == rows(first, second)
    told = [e for e in [*before, *other.events()] if e.kind == "index"]
    assert told == [e for e in whole.events() if e.kind == "index"]
    assert len(told) >= 3
    assert {s.input.alias: s.stem.layouts() for s in whole.stages} == {
        s.input.alias: s.stem.layouts() for s in other.stages
    }


def test_a_record_of_another_version_is_learned_anew_with_the_same_answers() -> None:
    one = engine(index=TUNERS["cdia"]())
    first = fed(one, 0, 1_000)
    parts = one.snapshot()
    record = json.loads(parts["record"])
    record["tuning"] = {"tuner": one.flow.tuning.name, "learned": {"made by": "an older version"}}  # type: ignore[union-attr]
    other = engine(index=TUNERS["cdia"]())
    other.restore({**parts, "record": json.dumps(record).encode()})
    assert all(s.stem.layout == Layout("bits") for s in other.stages)
    plain = engine()
    assert rows(fed(plain, 0, 1_000), fed(plain, 1_000, 2_000)) == rows(first, fed(other, 1_000, 2_000))


def test_a_tuning_is_an_event_with_both_layouts_and_their_costs() -> None:
    e = engine(index=TUNERS["cdia"]())
    fed(e, 0, 1_500)
    told = [event for event in e.events() if event.kind == "index"]
    assert told
    for event in told:
        assert event.cost_after <= event.cost_before
        assert event.change.after.kind == "bits"
        assert event.change.part == "layouts"
        assert event.why.facts["requests"] > 0


def test_indexes_show_patterns_and_what_other_layouts_would_cost() -> None:
    e = engine(index=TUNERS["cdia"]())
    fed(e, 0, 1_500)
    views = e.indexes()
    assert set(views) == set("rst")
    for view in views.values():
        assert sum(share for _, share in view.patterns) == pytest.approx(1.0, abs=0.15)
        others = dict(view.alternatives)
        assert len(others) == 4
        assert others["no index"] > 1
        assert next(times for name, times in others.items() if name.startswith("best now")) <= 1 + 1e-9
    assert engine().indexes()["r"].layout == "hash for each pattern"
    assert e.stats()["inputs"]["r"]["index bytes"] > 0


def test_a_frozen_engine_keeps_its_layouts() -> None:
    e = engine(index=TUNERS["cdia"]())
    fed(e, 0, 500)
    e.events()
    e.freeze()
    fed(e, 500, 1_500)
    assert not [event for event in e.events() if event.kind == "index"]


def test_after_the_first_layout_nothing_moves_unless_asked() -> None:
    e = engine(index=Amri(window=300, period=600, migration="nothing", gain=0.0, patience=0, budget=None))
    fed(e, 0, 500)
    assert e.flow.tuning is not None
    before = e.flow.tuning.moved
    mixed = 0
    for at in range(500, 1_500, 100):
        fed(e, at, at + 100)
        mixed += any(len(set(s.stem.layouts().values())) > 1 for s in e.stages)
    assert e.flow.tuning.moved == before
    assert mixed
    moving = engine(index=Amri(window=300, period=600, migration="all", gain=0.0))
    fed(moving, 0, 1_500)
    assert moving.flow.tuning is not None
    assert moving.flow.tuning.moved > 0


def test_a_budget_of_memory_holds_for_all_stems_together() -> None:
    e = engine(index=Amri(window=300, period=600, migration="all", memory=4 * 48, gain=-1e9))
    fed(e, 0, 1_500)
    assert all(s.stem.layout.bits for s in e.stages)
    assert sum(4 * 2 ** sum(s.stem.layout.bits) for s in e.stages) <= 2 * 4 * 48


@pytest.mark.parametrize(
    "name", ["amri", "amri csria triggered all", "amri-paper", "hashes 3", "hashes 2 dia partial", "chaos"]
)
def test_tuners_by_name(name: str) -> None:
    assert make(name).name == name


@pytest.mark.parametrize("kind", ["amri", "amri-paper", "hashes 2"])
def test_every_combination_has_a_name(kind: str) -> None:
    for assessment, schedule, migration in EVERY:
        made = make(f"{kind} {assessment} {schedule} {migration}")
        assert isinstance(made, Amri)
        assert (made.assessment, made.schedule, made.migration) == (assessment, schedule, migration)
        assert made.hashes == (2 if kind == "hashes 2" else None)


def test_the_papers_settings_have_a_name() -> None:
    ours, paper, mixed = make("amri"), make("amri-paper"), make("amri-paper triggered")
    assert isinstance(ours, Amri)
    assert isinstance(paper, Amri)
    assert isinstance(mixed, Amri)
    assert (ours.assessment, ours.schedule, ours.migration) == ("cdia-highest", "continuous", "all")
    assert (paper.assessment, paper.schedule, paper.migration) == ("cdia-highest", "hybrid", "nothing")
    assert (paper.epsilon, paper.theta, paper.insurance, paper.patience, paper.budget) == (0.05, 0.1, 0.0, 0, None)
    assert paper.floor == 0
    assert (mixed.schedule, mixed.migration) == ("triggered", "nothing")


def known(stem: str) -> StemFacts:
    return StemFacts(("k", "l"), 1_000, 9, 1, lambda: [[2.0**-b for b in range(21)]] * 2)


def turns(tuner: Amri, count: int, mask: int, work: float) -> tuple[int, list[Layout]]:
    """So many observations of 1,000 requests; returns how many selections were made, and the layouts chosen."""
    before, chosen = tuner.tunings, []
    for _ in range(count):
        tuner.observe([Probe("r", mask, 1_000, work, 10)])
        chosen += [c.after for c in iter(lambda: tuner.propose(Plan()), None)]
    return tuner.tunings - before, chosen


def test_selections_are_paid_from_a_share_of_the_work() -> None:
    free = Amri(window=1_000, patience=0, budget=None)
    bounded = Amri(window=1_000, patience=0, budget=0.01)
    for tuner in (free, bounded):
        tuner.begin({"r": 2}, known)
    assert turns(free, 200, 0b10, 1e5)[0] == 200
    earned = 0.01 * (1_000 * RECORDED.request + 1e5 * RECORDED.candidate)
    made, chosen = turns(bounded, 200, 0b10, 1e5)
    assert 4 <= made <= 4 + 200 * earned / RECORDED.select + 1
    assert chosen[0].bits[0] > chosen[0].bits[1]
    # More work pays for more.
    assert turns(bounded, 200, 0b10, 1e7)[0] > 5 * made


def test_what_is_priced_is_measured_unless_the_name_says_recorded() -> None:
    here = Prices(candidate=5.0, bucket=50.0)
    assert make("amri", measured=here).prices == here  # type: ignore[attr-defined]
    assert make("amri recorded", measured=here).prices == RECORDED  # type: ignore[attr-defined]
    assert make("amri").prices == RECORDED  # type: ignore[attr-defined]
    assert engine(index="amri").flow.tuning.tuner.prices == machine.prices()  # type: ignore[union-attr, attr-defined]


def test_a_restart_on_another_machine_keeps_the_prices() -> None:
    ours, theirs = Amri(prices=Prices(bucket=1.0)), Amri(prices=Prices(bucket=9.0))
    for tuner in (ours, theirs):
        tuner.begin({"r": 2}, known)
    theirs.restore(json.loads(json.dumps(ours.snapshot())))
    assert theirs.prices == Prices(bucket=1.0)


def test_no_attribute_is_left_without_the_floor() -> None:
    for floor, least in ((3, 3), (0, 0)):
        tuner = Amri(window=1_000, insurance=0.0, floor=floor)
        tuner.begin({"r": 2}, known)
        _, chosen = turns(tuner, 1, 0b10, 0.0)
        assert min(chosen[-1].bits) == least
        assert sum(chosen[-1].bits) == 10


def test_asking_what_is_indexed_decides_nothing_and_weighs_only_after_a_selection() -> None:
    quiet, asked = engine(index=TUNERS["cdia"]()), engine(index=TUNERS["cdia"]())
    assert asked.flow.tuning is not None
    tuner = asked.flow.tuning.tuner
    assert isinstance(tuner, Amri)
    explain, calls, states = tuner.explain, 0, set()
    keys = {"r": ["k", "l"], "s": ["k", "l"], "t": ["l", "k"]}  # in the order of WHERE

    def counted(facts: Any) -> Any:
        nonlocal calls
        calls += 1
        return explain(facts)

    tuner.explain = counted  # type: ignore[method-assign]
    for at in range(0, 1_500, 50):
        fed(quiet, at, at + 50)
        fed(asked, at, at + 50)
        for _ in range(3):
            views = asked.indexes()
        states.add((tuner.tunings, tuple(str(s.stem.layout) for s in asked.stages)))
        assert {a: v.layout for a, v in views.items()} == {a: x.named(keys[a]) for a, x in tuner.layouts.items()}
    assert calls == len(states) < 30
    assert [e for e in asked.events() if e.kind == "index"] == [e for e in quiet.events() if e.kind == "index"]


class Turning(SingleRoute):
    """One order, and the other from a time on."""

    name = "turning"

    def route(self, batch: Batch) -> list[Ruster]:
        late = batch.data.column("ts")[0].as_py() >= 1_000
        return [Ruster(None, Route(tuple(reversed(range(len(self.pipeline)))) if late else self.plan.route.operators))]


def test_a_change_of_routes_is_told_when_the_turn_is_over() -> None:
    e = engine(policy=Turning, index=Amri(window=4_800, period=4_800))
    assert e.flow.tuning is not None
    told = []
    observe = e.flow.tuning.tuner.observe
    e.flow.tuning.tuner.observe = lambda probes: (told.append(now), observe(probes))  # type: ignore[method-assign]
    for now in range(0, 2_000, 50):
        fed(e, now, now + 50)
    # 600 tuples are enough, of 150 in a turn; after the change a quarter of that, twice: one turn each.
    early, late = [t for t in told if t < 1_000], [t for t in told if t >= 1_000]
    assert min(np.diff(early[2:])) >= 200
    assert late[:2] == [1_000, 1_050]


def test_a_stem_rests_while_nothing_changes_and_wakes_when_patterns_do() -> None:
    tuner = Amri(window=1_000, budget=None)
    tuner.begin({"r": 2}, known)
    assert turns(tuner, 100, 0b10, 0.0)[0] < 15
    assert tuner.resting
    made, chosen = turns(tuner, 2, 0b01, 0.0)
    assert made >= 1
    assert chosen[-1].bits[1] > chosen[-1].bits[0]


# --- deletion: the earliest partition number --------------------------------------------------------------------------

LAST_ROWS = """
    SELECT r.ts AS a, s.ts AS b FROM r [ROWS 60], s [RANGE 90 MILLISECONDS] WHERE r.k = s.k
"""


def _unsafe_deletions(ahead: int = 0) -> tuple[int, int, list[tuple[int, ...]]]:
    """Slices dropped, those of them that a tuple under way (one that waits) may still search, and the rows found."""
    e = BlockEngine(
        bind(LAST_ROWS, {n: Source(SCHEMA, time="ts", unit="ms") for n in "rs"}), slice_rows=16,
        index=Amri(window=100, period=200, migration="partial", gain=0.0, budget=None),
    )  # fmt: skip
    if ahead:
        horizon, clock = e.sources.horizon, e.feeds["r"].clock
        assert clock is not None
        e.sources.horizon = lambda i: horizon(i) + ahead * clock.scale  # type: ignore[method-assign]
    in_flight: list[int] = []
    """For each slice dropped, the tuples that wait and might have searched it."""

    def watched(alias: str, stem: Any) -> None:
        evict = stem.evict

        def call(horizon: int) -> int:
            in_flight.extend(
                e.sources.waiting(e.shape.number[alias], s.expiry) for s in stem.slices if s.expiry < horizon
            )
            return int(evict(horizon))

        stem.evict = call

    for stage in e.stages:
        watched(stage.input.alias, stage.stem)
    random = np.random.default_rng(11)
    found = []
    for at in range(0, 1_500, 30):
        for name in "rs":
            keys = {c: random.integers(0, 40, 30) for c in ("k", "l")}
            found.append(e.push(name, pa.table({"ts": np.arange(at, at + 30), **keys})))
        # One stream is far ahead: its tuples wait for the other.
        found.append(e.advance({"r": at + 30, "s": max(at - 200, 0)}))
    dropped, unsafe = len(in_flight), sum(n > 0 for n in in_flight)
    found.append(e.close())
    assert all(s.stem.index_bytes == 0 for s in e.stages)
    return dropped, unsafe, rows(*found)


def test_a_slice_and_its_index_go_only_when_no_tuple_under_way_may_search_them() -> None:
    dropped, unsafe, found = _unsafe_deletions()
    assert dropped > 20
    assert unsafe == 0
    assert len(found) > 100
    # Dropped sooner than the rule allows, this test notices, and so do the results.
    _, too_soon, fewer = _unsafe_deletions(ahead=150)
    assert too_soon > 0
    assert len(fewer) < len(found)


@pytest.mark.parametrize("name", ["", "bits", "hashes", "amri fast", "amri sria dia", "chaos all"])
def test_unknown_names_are_refused(name: str) -> None:
    with pytest.raises(DefinitionError):
        make(name)


def test_a_hash_index_on_fewer_attributes_serves_a_probe_that_knows_more() -> None:
    few = engine(index=Layout("hash", patterns=((0,),)))
    assert rows(fed(few, 0, 600)) == rows(fed(engine(), 0, 600))
    scan = engine(index="scan")
    assert rows(fed(scan, 0, 300)) == rows(fed(engine(), 0, 300))
