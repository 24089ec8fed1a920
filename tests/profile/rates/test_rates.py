"""Moving average costs: a hiccup is capped, a true rise is followed, and nothing is made up where nothing was met."""

from __future__ import annotations

import json

import numpy as np
import pytest

from thalweg.contract.visits import Journey, Trial, Visit, Visits
from thalweg.plan import Operator, Pipeline, Route, Ruster
from thalweg.profile.rates.rates import Rates


def filters(count: int, **options: int) -> Rates:
    return Rates(Pipeline("s", tuple(Operator(f"f{i}") for i in range(count))), **options)


def visits(*told: tuple[int, int, float], extra: int = 0, extra_seconds: float = 0.0) -> Visits:
    """One batch of (operator, rows, seconds)."""
    seen = tuple(Visit(op, rows, rows, seconds, extra, extra_seconds) for op, rows, seconds in told)
    return Visits(0, 1000, (Journey(Ruster(None, Route((0, 1))), 1000, seen),))


def settled(cost: float = 1e-6) -> Rates:
    costs = filters(2)
    for _ in range(50):
        costs.observe(visits((0, 1000, 1000 * cost), (1, 1000, 5e-3)))
    return costs


def test_a_steady_cost_is_found() -> None:
    assert settled().per_row == pytest.approx([1e-6, 5e-6])


def test_extra_rows_count_with_their_seconds() -> None:
    costs = filters(1)
    costs.observe(visits((0, 10, 1.0), extra=30, extra_seconds=5.0))
    assert costs.per_row == pytest.approx([6.0 / 40])


def test_one_hiccup_moves_the_average_no_further_than_the_cap_allows() -> None:
    moved = {}
    for times in (2, 3, 100, 10_000):
        costs = settled()
        costs.observe(visits((0, 1000, times * 1e-3)))
        moved[times] = costs.per_row[0] / 1e-6 - 1
    assert moved[3] == pytest.approx(2 * moved[2]), "what is not much counts in full"
    assert moved[100] == pytest.approx(moved[10_000])
    assert moved[3] < moved[100] < 0.3
    costs.observe(visits((1, 1000, 10.0)))
    assert costs.per_row[0] < costs.per_row[1], "the order by cost is not turned round"


def test_hiccups_now_and_then_never_add_up() -> None:
    random = np.random.default_rng(5)
    costs = settled()
    for k in range(2000):
        costs.observe(visits((0, 1000, 1.0 if k % 20 == 19 else 1e-3 * random.uniform(0.9, 1.1))))
        assert costs.per_row[0] < 1.4e-6


@pytest.mark.parametrize(("rise", "most"), [(2, 30), (10, 40), (100, 60)])
def test_a_true_rise_is_followed(rise: int, most: int) -> None:
    costs, seen = settled(), 0
    while costs.per_row[0] < 0.9 * rise * 1e-6 and seen < 200:
        costs.observe(visits((0, 1000, rise * 1e-3)))
        seen += 1
    assert seen < most, f"{seen} visits of 1,000 rows until a {rise}-fold rise is seen"


def test_a_fall_is_followed_without_a_cap() -> None:
    costs, seen = settled(1e-4), 0
    while costs.per_row[0] > 2e-6 and seen < 200:
        costs.observe(visits((0, 1000, 1e-3)))
        seen += 1
    assert 20 < seen < 100, "an average over some 12,000 rows"


def test_the_first_rows_are_not_capped() -> None:
    costs = filters(1)
    for seconds in (1e-5, 1e-5, 1.0):
        costs.observe(visits((0, 3, seconds)))
    assert costs.per_row[0] == pytest.approx(1 / 6, rel=0.01)


def test_the_first_visit_stands_only_until_the_second() -> None:
    costs = filters(1)
    costs.observe(visits((0, 1000, 1.0)))
    assert costs.per_row[0] == pytest.approx(1e-3)
    for _ in range(3):
        costs.observe(visits((0, 1000, 1e-3)))
    assert costs.per_row[0] == pytest.approx(1e-6)
    assert costs.error[0] == pytest.approx(0.0)


def test_a_cost_of_nothing_may_rise() -> None:
    costs = settled(0.0)
    assert costs.per_row[0] == 1e-12
    for _ in range(50):
        costs.observe(visits((0, 1000, 1e-3)))
    assert costs.per_row[0] == pytest.approx(1e-6, rel=0.05)


def test_an_operator_never_met_costs_what_the_others_do() -> None:
    costs = filters(3)
    assert costs.per_row.tolist() == [1.0, 1.0, 1.0]
    costs.observe(visits((0, 10, 2e-5), (2, 10, 4e-5)))
    assert costs.per_row == pytest.approx([2e-6, 3e-6, 4e-6])


def test_a_visit_of_no_rows_says_nothing() -> None:
    costs = filters(2)
    costs.observe(visits((0, 0, 1.0)))
    assert costs.per_row.tolist() == [1.0, 1.0]


def test_a_snapshot_is_json_and_goes_on_the_same() -> None:
    costs, twin = settled(), filters(2)
    twin.restore(json.loads(json.dumps(costs.snapshot())))
    for c in (costs, twin):
        c.observe(visits((0, 500, 2e-3)))
    assert costs.per_row.tolist() == twin.per_row.tolist()


def test_lookups_and_matches_of_a_stem_are_kept_apart() -> None:
    route = Route((0, 1))
    journey = Journey(
        Ruster(None, route), 10,
        (Visit(0, 10, 4, 2e-6), Visit(1, 4, 12, 9.0, survivors=3, work=20.0)),
        trials=(Trial(frozenset(), 1, 6, 18, 5, 30.0),),
    )  # fmt: skip
    rates = Rates(Pipeline("s", (Operator("f"), Operator("t", "stem"))))
    rates.observe(Visits(0, 10, (journey,)))
    assert rates.fanout == pytest.approx([0.4, 3.0], rel=1e-3)
    assert rates.lookup == pytest.approx([2e-7, 2 * rates.unit], rel=1e-3), "a stem's seconds have no say"
    assert rates.per_row == pytest.approx([2e-7, 5 * rates.unit], rel=1e-3)
    again = Rates(Pipeline("s", (Operator("f"), Operator("t", "stem"))))
    again.restore(rates.snapshot())
    assert again.per_row.tolist() == rates.per_row.tolist()
