"""`auto` for joins: classes where they are measured to pay, one order where they are not, and back when data changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from thalweg.engine.block import BlockEngine
from thalweg.language.bind import bind
from thalweg.language.query import Source
from thalweg.optimize.auto.auto import Auto
from thalweg.optimize.auto.scouted import Scouted, Side
from thalweg.plan import Operator, Pipeline
from thalweg.profile.prices import RECORDED, Prices

STREAM = Source(pa.schema([("ts", pa.int64()), ("kind", pa.int64()), ("x", pa.int64()), ("y", pa.int64())]), "ts", "ms")
TABLE = Source(pa.schema([("k", pa.int64())]))
TEXT = "SELECT s.ts, s.kind FROM s [RANGE 1 SECONDS], t, u WHERE s.x = t.k AND s.y = u.k"
KEYS, EACH = 200, 8
ROWS = 5000
"""Of a batch: in smaller ones, classes of such tuples would cost more than they save."""


def tuples(rows: int, start: int, random: np.random.Generator, *, swapped: bool = False, telling: bool = True) -> Any:
    """Kind 0 rarely matches t and always u, kind 1 the other way round; where nothing tells, by lot."""
    kind = random.integers(0, 2, rows)
    true = kind if telling else random.integers(0, 2, rows)
    true = 1 - true if swapped else true
    keys = 1000 * random.integers(0, KEYS, (2, rows))
    poor = random.random((2, rows)) < 0.95
    # Unknown keys lie among the known ones, so that only the kind tells.
    x = keys[0] + 7 * ((true == 0) & poor[0])
    y = keys[1] + 7 * ((true == 1) & poor[1])
    return pa.table({"ts": np.arange(start, start + rows), "kind": kind, "x": x, "y": y})


def engine(policy: str = "auto", seed: int = 0, prices: Prices = RECORDED) -> BlockEngine:
    spread = pa.table({"k": np.repeat(np.arange(KEYS) * 1000, EACH)})
    sources = {"s": STREAM, "t": TABLE, "u": TABLE}
    return BlockEngine(bind(TEXT, sources), policy=policy, seed=seed, prices=prices, tables={"t": spread, "u": spread})


def feed(
    made: BlockEngine, batches: int, seed: int, at: int = 0, rows: int = ROWS, **how: bool
) -> list[tuple[int, ...]]:  # fmt: skip
    random = np.random.default_rng(seed)
    found: list[tuple[int, ...]] = []
    for n in range(at, at + batches):
        out = made.push("s", tuples(rows, rows * n, random, **how))
        found += list(zip(*(c.to_pylist() for c in out.columns), strict=True))
        made.advance(rows * (n + 1))
    return found


def work(made: BlockEngine) -> float:
    line = made.stats()["inputs"]["s"]
    return float(line["work"] + line["profiling work"])


def policy_of(made: BlockEngine) -> Auto:
    found = next(s.policy for s in made.stages if s.input.alias == "s")
    assert isinstance(found, Auto)
    return found


def scouted(policy: Auto) -> Scouted:
    assert isinstance(policy.way, Scouted)
    return policy.way


def test_classes_come_in_force_where_the_kind_tells_and_say_so() -> None:
    adapted, plain = engine(), engine("agreedy")
    assert sorted(feed(adapted, 16, seed=1)) == sorted(feed(plain, 16, seed=1))
    assert work(plain) > 1.5 * work(adapted)
    policy = policy_of(adapted)
    assert policy.classed in ("cbr", "mesh")
    assert len(policy.plan.routes) >= 2
    adopted = next(e for e in adapted.events() if e.kind == "adopt")
    assert adopted.by == "auto"
    assert adopted.cost_after < 0.95 * adopted.cost_before
    told = policy.explain()
    assert "kind" in told.tree
    assert str(told.why).startswith(f"{policy.classed}: ")
    assert "less work than one order" in str(told.why)
    assert sum(r.share for r in told.routes) == pytest.approx(1.0)


def test_classes_that_would_cost_more_than_they_save_are_not_looked_for() -> None:
    made = engine(seed=1, prices=replace(RECORDED, classify=1e-6))
    feed(made, 40, seed=1, rows=500)
    policy = policy_of(made)
    assert policy.greedy.scouting.pace.rounds > 0
    assert (policy.classed, policy.ledger.taught, policy.contested) == ("", 0.0, False)


def test_learning_classes_is_a_loan_and_then_has_to_be_earned() -> None:
    policy = policy_of(engine())
    pace, ledger = policy.greedy.scouting.pace, policy.ledger
    pace.now, pace.rows = 1e-6, ROWS
    ledger.useful = 1.0
    assert scouted(policy).awake
    ledger.taught = ledger.loan + 1.1 * ledger.regret
    assert not scouted(policy).awake
    ledger.useful = 2.0
    assert scouted(policy).awake


def test_where_nothing_tells_there_are_no_classes_and_no_price() -> None:
    adapted, plain = engine(seed=2), engine("agreedy", seed=2)
    assert sorted(feed(adapted, 20, seed=2, telling=False)) == sorted(feed(plain, 20, seed=2, telling=False))
    assert not policy_of(adapted).classed
    assert not policy_of(adapted).contest.mesh.searched, "the quick look should have spared the search"
    assert work(adapted) < 1.03 * work(plain)


def test_classes_follow_or_give_way_when_kinds_change_places() -> None:
    made, plain = engine(seed=3), engine("agreedy", seed=3)
    for each in (made, plain):
        feed(each, 10, seed=3)
    assert policy_of(made).classed
    before, single = work(made), work(plain)
    for each in (made, plain):
        feed(each, 20, seed=4, at=10, swapped=True)
    assert work(made) - before < 1.1 * (work(plain) - single), "stale classes must not cost more than one order"


def test_no_clock_has_a_say() -> None:
    plans = []
    for _ in range(2):
        made = engine(seed=5)
        feed(made, 8, seed=5)
        plans.append((policy_of(made).plan, work(made), [str(e.why) for e in made.events()]))
    assert plans[0] == plans[1]


def test_a_trial_that_classes_lose_is_told_and_changes_nothing() -> None:
    policy = Auto(Pipeline("s", (Operator("t", "stem"), Operator("u", "stem"))))
    way = scouted(policy)
    way.state.trial, way.state.one, way.state.classes = "mesh", Side(500, 1e-5), Side(500, 9.9e-6)
    way.decide_trial()
    event = policy.drain()[-1]
    assert (policy.classed, way.state.trial, event.kind) == ("", "", "trial")
    assert "not adopted" in str(event.why)
    assert event.change is None


def test_linked_stems_make_prices_untrue_and_are_left_alone() -> None:
    """t and u also join each other: the matches of a tuple with each alone multiply to far more than there are."""
    text = "SELECT s.ts FROM s [RANGE 1 SECONDS], t, u WHERE s.x = t.a AND s.y = u.a AND t.b = u.b"
    pair = Source(pa.schema([("a", pa.int64()), ("b", pa.int64())]))
    random = np.random.default_rng(6)

    def table(seed: int) -> pa.Table:
        r = np.random.default_rng(seed)
        return pa.table({"a": r.integers(0, 20, 2000), "b": r.integers(0, 5000, 2000)})

    made = BlockEngine(bind(text, {"s": STREAM, "t": pair, "u": pair}), tables={"t": table(1), "u": table(2)})
    for n in range(6):
        few = random.integers(0, 20, (2, 1000))
        made.push(
            "s", pa.table({"ts": np.arange(1000 * n, 1000 * n + 1000), "kind": few[0] % 2, "x": few[0], "y": few[1]})
        )
    policy = policy_of(made)
    assert not scouted(policy).trusted
    assert not policy.classed
    assert not policy.contest.mesh.searched


@pytest.mark.parametrize("at", [1, 3, 8])
def test_a_snapshot_carries_what_was_learned(at: int) -> None:
    made = engine(seed=7)
    feed(made, at, seed=7)
    first = policy_of(made)
    again = Auto(first.pipeline, first.seed)
    again.restore(first.snapshot())
    assert (again.plan, again.classed) == (first.plan, first.classed)
    assert again.explain() == first.explain()
    assert again.snapshot() == first.snapshot()


def test_freezing_keeps_the_routes_of_all_classes() -> None:
    made = engine(seed=8)
    feed(made, 8, seed=8)
    policy = policy_of(made)
    assert policy.classed
    made.freeze()
    assert made.steering.by_class == {"s"}
    plan, before, learned = policy.plan, work(made), policy.snapshot()
    found = feed(made, 6, seed=9, at=8)
    assert (policy.plan, policy.snapshot()) == (plan, learned), "frozen policies neither decide nor learn"
    again = engine(seed=8)
    again.restore(made.snapshot())
    assert again.steering.by_class == {"s"}
    by_class = work(made) - before
    made.freeze({"s": ["t", "u"]})
    assert not made.steering.by_class
    before = work(made)
    assert sorted((k,) for _, k in feed(made, 6, seed=9, at=14)) == sorted((k,) for _, k in found)
    assert work(made) - before > 1.5 * by_class, "one order for all takes more"
    made.thaw()
    feed(made, 1, seed=10, at=20)
    assert policy.tuples > 8000, "thawed, it goes on"
