"""The worst cases of Independent and LocalSwaps, to the last digit."""

from __future__ import annotations

import pytest

from thalweg.lab.chapter4.contenders import A_GREEDY, INDEPENDENT, LOCAL_SWAPS, named, thesis
from thalweg.lab.chapter4.worstcases import (
    against_independent,
    against_local_swaps,
    experiment,
    independent_case,
    local_swaps_case,
)
from thalweg.lab.experiment import Measurements, Value
from thalweg.lab.simulate import best_order, order_work


@pytest.mark.parametrize("n", [2, 4, 5, 10])
def test_costs_of_the_orders_themselves(n: int) -> None:
    table = against_independent(n)
    trapped, greedy = tuple(range(n)), (0, n - 1, *range(1, n - 1))
    assert order_work(table, trapped, [1.0] * n) / 100 == pytest.approx(0.49 * n + 0.51)
    assert order_work(table, greedy, [1.0] * n) / 100 == pytest.approx(1.49)
    assert best_order(table, [1.0] * n)[1] / 100 == pytest.approx(1.49)


@pytest.mark.parametrize("n", [4, 5, 10, 20])
def test_costs_of_the_second_cases_orders(n: int) -> None:
    before, after = against_local_swaps(n)
    trapped, greedy = tuple(range(n)), (n - 1, n - 2, *range(n - 2))
    assert order_work(before, trapped, [1.0] * n) / 100 == pytest.approx((n + 1) / 2)
    assert order_work(after, trapped, [1.0] * n) / 100 == pytest.approx((n + 1) / 2)
    assert order_work(after, greedy, [1.0] * n) / 100 == pytest.approx(1 + 1 / n)


@pytest.mark.parametrize("n", [4, 5, 10, 20])
def test_policies_with_exact_statistics_pay_the_papers_figures(n: int) -> None:
    few = named(thesis(), A_GREEDY)
    rows = independent_case(n, 2000, 1, few) + local_swaps_case(n, 2000, 1, few)
    measured = Measurements(tuple(rows))

    def cost(case: str, policy: str) -> float:
        return measured.estimate("cost", case=case, how="exact", policy=policy).mean

    assert cost("independent", INDEPENDENT) == pytest.approx(0.49 * n + 0.51)
    assert cost("independent", A_GREEDY) == pytest.approx(1.49)
    assert cost("localswaps", LOCAL_SWAPS) == pytest.approx((n + 1) / 2)
    assert cost("localswaps", A_GREEDY) == pytest.approx(1 + 1 / n)


def test_the_claims_fail_when_a_cost_is_off() -> None:
    few = named(thesis(), A_GREEDY)
    rows = [r for n in (4, 10) for r in independent_case(n, 2000, 1, few) + local_swaps_case(n, 2000, 1, few)]

    def verdicts(of: list[dict[str, Value]]) -> list[str]:
        return [claim.check(Measurements(tuple(of))).verdict for claim in experiment.claims[:4]]

    assert verdicts(rows) == ["agrees"] * 4
    spoilt = [r | ({"cost": 2.0} if r["policy"] == A_GREEDY and r["how"] == "exact" else {}) for r in rows]
    assert verdicts(spoilt) == ["agrees", "does not", "agrees", "does not"]
