"""Chapter 5's streams have the properties that its figures vary, and its adaptive plan changes no answer."""

from __future__ import annotations

from itertools import combinations

import pytest

from thalweg.lab import catalogue
from thalweg.lab.chapter5 import streams
from thalweg.lab.chapter5.burst import ORDERS, RS
from thalweg.lab.chapter5.contenders import G, M, P, X, again, found, measured
from thalweg.lab.elements.adaptive import AdaptiveJoin
from thalweg.lab.elements.mjoin import MJoin
from thalweg.lab.elements.tree import Tree
from thalweg.optimize.caches.candidates import candidates

TABLE = {
    "D1": (0.004, 0.005, 0.005, 0.007, 0.0045, 0.005),
    "D2": (0.004, 0.005, 0.005, 0.007, 0.0045, 0.005),
    "D3": (0.003, 0.005, 0.007, 0.0045, 0.006, 0.008),
    "D4": (0.003, 0.004, 0.0067, 0.002, 0.0023, 0.0027),
    "D5": (0.005, 0.007, 0.005, 0.006, 0.005, 0.002),
    "D6": (0.005, 0.0033, 0.0025, 0.0067, 0.005, 0.0075),
    "D7": (0.0,) * 6,
    "D8": (0.001,) * 6,
}


@pytest.mark.parametrize("point", streams.POINTS)
def test_sets_have_the_selectivities_of_table_52(point):
    sets = [set(s) for s in streams.POINTS[point].sets()]
    found = [len(a & b) / (len(a) * len(b)) for a, b in combinations(sets, 2)]
    assert found == pytest.approx(TABLE[point.rstrip("b")])


def test_windows_are_full_when_counting_begins():
    drawn = streams.four("D1", 200, 20, 7)
    held = [0] * 4
    for stream, _, enters in drawn.elements[: drawn.warm]:
        held[stream] += 1 if enters else -1
    assert held == [20] * 4
    counted = [enters for _, _, enters in drawn.elements[drawn.warm :]]
    assert sum(counted) == 200
    assert len(counted) == 400, "each row that enters drives one out"
    three = streams.three(60, 20, 5, 7)
    held = [0] * 3
    for stream, _, enters in three.elements[: three.warm]:
        held[stream] += 1 if enters else -1
    assert held == [20, 20, 100]


@pytest.mark.parametrize("repeats", [1, 5])
def test_the_hit_probability_is_what_the_repeats_make_it(repeats):
    drawn = streams.three(200, 30, repeats, 7)
    plan = MJoin(drawn.join, ORDERS[RS], candidates(ORDERS[RS], drawn.join.graph))
    for element in drawn.elements:
        plan.take(element)
    (cache,) = plan.caches.values()
    assert 1 - cache.misses / cache.probes == pytest.approx(1 - 1 / (2 * repeats), abs=0.05)


def test_a_window_without_an_index_is_looked_through():
    plain, scanned = (streams.three(60, 20, 5, 7, join=j) for j in (streams.Q3, streams.SCANNED))
    plans = [MJoin(s.join, ORDERS[RS]) for s in (plain, scanned)]
    answers = [[sorted(p.take(e)) for e in s.elements] for p, s in zip(plans, (plain, scanned), strict=True)]
    assert answers[0] == answers[1]
    assert plans[1].work.touched > 5 * plans[0].work.touched
    trees = [Tree(j, ((0, 1), 2)) for j in (streams.Q3, streams.SCANNED)]
    assert [[sorted(t.take(e)) for e in plain.elements] for t in trees] == [answers[0]] * 2
    assert trees[0].work.touched == trees[1].work.touched, "a partial result has an index all the same"


def test_contenders_find_the_same_and_the_best_is_no_worse():
    drawn = streams.four("D1b", 400, 60, 7)
    plans = found(drawn, 800, deletions=True)
    rows = {r["policy"]: r for r in measured(drawn, {n: again(p) for n, p in plans.items()}, {"seed": 7})}
    assert set(rows) == {M, X, P, G}
    assert rows[M]["results"] > 0
    assert rows[G]["work"] <= rows[P]["work"] <= rows[M]["work"]


def test_an_adaptive_plan_gives_the_answers_of_a_plain_one_and_uses_caches():
    drawn = streams.bursting(1_200, 800, 40, 5, 20, 7)
    adaptive = AdaptiveJoin(drawn.join, ORDERS[RS], interval=4_000, seed=7)
    plain = MJoin(drawn.join, ORDERS[RS])
    for element in drawn.elements:
        assert sorted(adaptive.take(element)) == sorted(plain.take(element))
    assert ("t: r ⋈ s",) in [names for _, names in adaptive.history]
    assert len(adaptive.history) > 1, "the burst changes what pays"


def test_what_costs_more_than_it_saves_is_dropped():
    """Once rows of T are rare and their values do not repeat, R ⋈ S is kept up in vain."""
    drawn = streams.three(3_000, 40, 5, 7)
    plan = AdaptiveJoin(drawn.join, ORDERS[RS], interval=4_000, seed=7)
    for element in drawn.elements[:20_000]:
        plan.take(element)
    assert [c.placed.input for c in plan.placed] == [2]
    busy = streams.three(3_000, 40, 1, 8, every=10)
    shifted = [(i, tuple(v if v is None else v + 10**6 for v in r), e) for i, r, e in busy.elements]
    for element in shifted:
        plan.take(element)
    assert 2 not in [c.placed.input for c in plan.placed]


def test_every_figure_has_an_experiment():
    figures = {f for e in catalogue.experiments("chapter5") for f in e.figures}
    assert figures == {f"5.{k}" for k in range(11, 24)} | {"table5.2"}
    assert catalogue.find("5.21")[0] is catalogue.find("table5.2")[0]
