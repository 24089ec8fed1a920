"""The benchmark's own parts: known answers, contenders that agree, kernels with a plain twin, an oracle that is one.

No time is measured here. Probe work is: it is the same on every machine.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from benchmarks.joins import handwritten, rivals, thalweg_runs, workloads
from benchmarks.joins.measure import Contender, Timing, WrongAnswer, race, ratio
from benchmarks.joins.workloads import chain, j, j3, star, steady


def by_loops(w):
    """Count and checksum of every combination, in plain Python."""
    tables = {n: t.to_pylist() for n, t in w.data.items()}
    weights = w.weights()
    count = total = 0
    for rows in product(*tables.values()):
        at = dict(zip(tables, rows, strict=True))
        times = [at[s]["ts"] for s in w.streams]
        if max(times) - min(times) < w.window and all(at[a][x] == at[b][y] for a, x, b, y in w.equalities):
            count += 1
            total += sum(k * at[s]["ts"] for s, k in weights.items())
    return count, total


def narrowed(w, tuples, modulus):
    """The first tuples of a workload, with keys folded so that few of them still join."""
    data = {}
    for name, table in w.data.items():
        part = table.slice(0, tuples)
        for k, column in enumerate(part.column_names):
            if column != "ts":
                folded = part[column].to_numpy() % modulus
                part = part.set_column(k, part.schema.field(column), [folded.astype("int32")])
        data[name] = part
    return replace(w, tuples=tuples, data=data, count=None, checksum=None)


def test_j_and_j3_are_the_known_ones():
    for w, kernel in ((j(40_000), handwritten.run_clique), (j3(40_000), handwritten.run_common_key)):
        assert kernel(dict(w.data))[:2] == (w.count, w.checksum)
        assert kernel(dict(w.data), known=False)[:2] == (w.count, w.checksum)


def test_hand_written_kernels_equal_nested_loops():
    clique, common = narrowed(j(2_000), 24, 3), narrowed(j3(2_000), 24, 4)
    answer = by_loops(clique)
    assert answer[0] > 50
    assert handwritten.run_clique(dict(clique.data))[:2] == answer
    answer = by_loops(common)
    assert answer[0] > 50
    assert handwritten.run_common_key(dict(common.data))[:2] == answer


@pytest.mark.parametrize("make", [j, j3, star, chain])
def test_all_contenders_agree(make, tmp_path):
    w = make(14_000)
    folder = w.write(tmp_path)
    answer = rivals.duckdb_batch(w, folder)
    assert answer[0] > 100
    assert rivals.polars_batch(w, folder) == answer
    assert rivals.duckdb_micro(w, folder, 7_000) == answer
    for policy in ("auto", "written"):
        run = thalweg_runs.run(w, folder, policy)
        assert (run.count, run.checksum) == answer


def test_windows_are_kept_at_their_edges(tmp_path):
    """Tuples of one result are less than a window apart, in batches that end anywhere."""
    w = narrowed(steady(60, 20), 60, 4)
    folder = w.write(tmp_path)
    answer = by_loops(w)
    run = thalweg_runs.run(w, folder, "written", batch=7)
    assert (run.count, run.checksum) == rivals.duckdb_batch(w, folder) == rivals.polars_batch(w, folder) == answer
    assert 50 < answer[0] < by_loops(replace(w, window=21))[0]


@pytest.fixture(scope="module")
def hindsight():
    w = j(40_000)
    return w, thalweg_runs.hindsight(w, w.data)


def test_no_fixed_order_beats_the_oracle(hindsight):
    w, seen = hindsight
    oracle = thalweg_runs.feed(w, w.data, seen.oracle())
    best = thalweg_runs.feed(w, w.data, seen.best_fixed())
    worst = thalweg_runs.feed(w, w.data, seen.worst_fixed())
    assert (oracle.count, oracle.checksum) == (w.count, w.checksum)
    assert oracle.work <= 1.05 * seen.least_work
    assert oracle.work < best.work < worst.work


def test_the_adapted_order_comes_close_to_the_oracle(hindsight):
    """Issue 3: at most 1.15 times the oracle's probe work, what was spent on learning included."""
    w, seen = hindsight
    oracle = thalweg_runs.feed(w, w.data, seen.oracle())
    adapted = thalweg_runs.feed(w, w.data, "auto")
    assert (adapted.count, adapted.checksum) == (w.count, w.checksum)
    assert adapted.profiling > 0
    assert adapted.total_work <= 1.15 * oracle.work


def test_a_race_stops_at_a_wrong_answer():
    with pytest.raises(WrongAnswer, match="liar found"):
        race([Contender("honest", lambda: (1, 2)), Contender("liar", lambda: (1, 3))], 1)


def test_ratios_are_formed_by_pairs():
    assert ratio(Timing("slow", wall=[2.0, 40.0, 6.0]), Timing("fast", wall=[1.0, 20.0, 2.0])) == 2.0


@pytest.mark.parametrize(("policy", "batch"), [("mesh", 2500), ("cbr", 2500), ("auto", 10_000)])
def test_kinds_of_tuples_want_routes_of_their_own(policy, batch):
    """At least 1.5 times less probe work than the best single order, learning included, and the same results."""
    w = workloads.kinds(16 * batch)
    best = thalweg_runs.feed(w, w.data, thalweg_runs.hindsight(w, w.data).best_fixed(), batch=batch)
    run = thalweg_runs.feed(w, w.data, policy, batch=batch)
    assert (run.count, run.checksum) == (best.count, best.checksum)
    assert best.work > 1.5 * run.total_work


def test_auto_takes_no_classes_that_cost_more_than_they_save():
    w = workloads.kinds(40_000)
    run, written = (thalweg_runs.feed(w, w.data, policy) for policy in ("auto", "written"))
    assert (run.count, run.checksum) == (written.count, written.checksum)
    assert run.total_work < 1.03 * written.work


def test_engines_side_by_side_get_the_same_and_give_the_same():
    w = workloads.lookups(12_500)
    seconds, work = thalweg_runs.side_by_side(w, ("auto", "written", "written"))
    assert (seconds > 0).all()
    assert work[1] == work[2] == thalweg_runs.feed(w, w.data, "written").total_work
    assert {thalweg_runs.in_turn(3, turn)[0] for turn in range(6)} == {0, 1, 2}
    assert all(sorted(thalweg_runs.in_turn(3, turn)) == [0, 1, 2] for turn in range(6))
