"""Real probes: the tables are what the paper says, the filters say what the bits say, timing changes no decision."""

from __future__ import annotations

import numpy as np
import pytest

from thalweg.lab.chapter4 import probes
from thalweg.lab.chapter4.generator import Population
from thalweg.lab.chapter4.probes import ENTRIES, ProbeBench, Stopwatch, TimedAGreedy, tables
from thalweg.lab.chapter4.timeshares import REPORTED, clocked, counted
from thalweg.lab.chapter4.unequalcosts import raced
from thalweg.lab.simulate import run
from thalweg.optimize.orders.agreedy import AGreedy

SEED = 11


def test_tables_hold_exactly_ten_thousand_ids_and_agree_on_80_percent() -> None:
    held, domain = tables(Population.of(4, 2), np.random.default_rng(SEED))
    assert domain == 2 * ENTRIES
    assert {len(t) for t in held} == {ENTRIES}
    same = domain - len(held[0] ^ held[1])
    assert same / domain == pytest.approx(0.8, abs=0.02)
    assert (domain - len(held[0] ^ held[2])) / domain == pytest.approx(0.5, abs=0.02)


def test_filters_say_what_the_bits_say_whatever_they_cost() -> None:
    bench = ProbeBench(Population.of(4, 2), [1, 3, 1, 7], 2000, SEED)
    (batch, *_) = bench.batches(0, 1000)
    for i, judge in enumerate(bench.filters):
        assert (judge.evaluate(batch.data, None).holds == bench.bits[:1000, i]).all()


def test_a_filter_of_cost_c_looks_c_times() -> None:
    looks = 0

    class Counting(frozenset[int]):
        def __contains__(self, x: object) -> bool:
            nonlocal looks
            looks += 1
            return super().__contains__(x)

    assert probes.probe(Counting({5}), 7, 100)(5)
    assert looks == 7


def test_timing_changes_no_decision() -> None:
    bench = ProbeBench(Population.of(6, 2), [1] * 6, 60_000, SEED)
    plain = AGreedy(bench.pipeline, SEED, follow=False, p=0.05)
    timed = TimedAGreedy(bench.pipeline, SEED, follow=False, p=0.05)
    costs = [1.0] * 6
    a, b = run(plain, bench.bits, costs), run(timed, bench.bits, costs)
    assert a.events == b.events
    assert a.events
    assert (a.useful == b.useful).all()
    assert set(timed.watch.seconds) == {"window", "view", "violations"}


def test_nested_charges_belong_to_the_inner_one(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(probes, "thread_time", lambda: now)
    watch = Stopwatch()
    with watch.charge("outer"):
        now += 1.0
        with watch.charge("inner"):
            now += 10.0
        now += 2.0
    now += 100.0
    with watch.charge("inner"):
        now += 5.0
    assert watch.seconds == {"outer": 3.0, "inner": 15.0}


def test_parts_of_a_timed_run_make_up_the_whole() -> None:
    (row,) = clocked(n=3, p=0.05, probes=5, tuples=6000, seed=SEED)
    parts = [row[k] for k in ("processing", "creation", "window", "view", "violations", "other")]
    assert sum(parts) == pytest.approx(100)
    assert all(part >= 0 for part in parts)
    for printed in REPORTED.values():
        assert sum(printed.values()) == pytest.approx(100)


def test_counted_share_of_profiling_is_what_p_and_n_make_it() -> None:
    """n = 8, p = 0.05: a profiled tuple costs the filters that would not have been tried, 8 less about 2.06."""
    (row,) = counted(n=8, p=0.05, tuples=120_000, settle=60_000, seed=SEED)
    extra = 0.05 * (8 - 2.06)
    assert row["creation"] == pytest.approx(100 * extra / (2.06 + extra), rel=0.05)


def test_everyone_races_over_the_same_tuples() -> None:
    rows = raced(c=2, p=0.05, train=5000, tuples=5000, seed=SEED)
    assert len({r["policy"] for r in rows}) == len(rows) == 8
    assert next(r["vs_optimal"] for r in rows if r["policy"] == "Optimal") == 1.0
