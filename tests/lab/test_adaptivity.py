"""Changing streams: the changes are as large as asked, and the measures say what they claim."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from thalweg.lab.chapter4.adaptivity import SETTLED, STEP, N, phases, settle, timeline
from thalweg.lab.chapter4.contenders import A_GREEDY, FOLLOWING, OPTIMAL, Contender, named, ours, thesis
from thalweg.lab.chapter4.periods import periodic
from thalweg.lab.experiment import Measurements

SEED = 5


def test_a_change_makes_the_old_best_order_dear() -> None:
    costs = [1.0] * N
    parts = phases(6, costs, np.random.default_rng(SEED), least=1.25)
    for old, new in pairwise(parts):
        assert new.cost(old.best(costs)[0], costs) >= 1.25 * new.best(costs)[1]
        assert sorted(new.selectivities) == sorted(old.selectivities)


def test_settled_means_near_for_a_while() -> None:
    far, near = 1.5, 1.01
    assert settle(np.array([far] * 7 + [near] * 40), 1.05) == 7
    glimpse = [far] * 7 + [near] * (SETTLED - 1) + [far] * 5 + [near] * 40
    assert settle(np.array(glimpse), 1.05) == 7 + SETTLED - 1 + 5
    assert settle(np.array([far] * 30), 1.05) == 30


def test_timeline_counts_all_evaluations_and_finds_the_change() -> None:
    rows = timeline(named(thesis(), A_GREEDY) + named(ours(), FOLLOWING), 60_000, 60_000, SEED)
    measured = Measurements(tuple(rows))
    assert {len(r["timeline"]) for r in rows} == {120_000 // STEP}
    for row in rows:
        line = np.array(row["timeline"])
        assert (line >= STEP).all()  # every tuple meets at least one filter
        if row["policy"] != OPTIMAL:
            before, after = line[25:30].mean(), line[30]
            assert after > 1.1 * before, row["policy"]
            assert row["order_after"] >= 1.0
    assert measured.estimate("settled", policy=FOLLOWING).mean < measured.estimate("settled", policy=A_GREEDY).mean


def test_a_policy_that_never_moves_never_settles() -> None:
    rows = timeline([Contender("as written", "written")], 20_000, 40_000, SEED)
    assert rows[1]["settled"] == 40_000
    assert rows[1]["excess"] > 5


def test_periodic_cost_is_useful_and_extra_and_never_below_the_best() -> None:
    rows = periodic(20_000, 10, thesis() + ours(), 60_000, SEED)
    for row in rows:
        assert row["cost"] == pytest.approx(row["useful"] + row["extra"])
        assert row["vs_best"] >= 0.99  # best by true statistics; a sample may favour another order a little
    assert len(rows) == 7
