"""Selecting layouts: equation (1) term by term, EPrune, exhaustive against brute force, the climb's gap, section 6."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from thalweg.errors import DefinitionError
from thalweg.optimize.indexes.bitdivision import Option, divide, greedy
from thalweg.optimize.indexes.layoutcost import Workload
from thalweg.optimize.indexes.layoutsearch import climb, exhaustive, select, space
from thalweg.profile.patterns.cdia import Cdia
from thalweg.profile.patterns.csria import Csria
from thalweg.profile.patterns.evenness import agreement, mixed, shares
from thalweg.profile.patterns.patterns import attributes_of
from thalweg.profile.patterns.sria import Sria
from thalweg.profile.prices import Prices
from thalweg.state.kernels import count as kernels

PAPER = Prices(hash=0.01, candidate=1.0, bucket=0.0)
TABLE_2 = {0b100: 4, 0b010: 10, 0b001: 10, 0b110: 4, 0b101: 16, 0b011: 10, 0b111: 46}


def workload(random: np.random.Generator, attributes: int, prices: Prices | None = None) -> Workload:
    masks = random.permutation(np.arange(1, 1 << attributes))[: random.integers(1, 8)]
    weights = random.dirichlet(np.ones(len(masks)))
    frequencies = {int(m): float(f) for m, f in zip(masks, weights, strict=True)}
    stored = float(random.choice([100, 2_500, 40_000]))
    if prices is None:
        prices = Prices(*(float(v) for v in random.choice([0.5, 1.0, 8.0], 4)))
    evenness = None
    if random.random() < 0.5:
        domains = random.choice([2, 10, 100, 100_000], attributes)
        evenness = [[max(2.0**-b, 1 / d) for b in range(21)] for d in domains]
    return Workload(attributes, frequencies, float(random.integers(1, 5_000)), 1_000.0, stored, prices, evenness)


@pytest.mark.parametrize(
    ("assessment", "expected"),
    [
        (Sria(3), (1, 1, 2)),
        (Csria(3, 0.001, 0.05), (0, 1, 3)),
        (Cdia(3, 0.001, 0.05, combination="random", seed=1), (1, 1, 2)),
        # The other way to fold: ⟨A1, A2, *⟩ goes to the more frequent ⟨*, A2, *⟩.
        (Cdia(3, 0.001, 0.05, combination="highest"), (0, 2, 2)),
    ],
    ids=["optimal", "csria", "cdia-random", "cdia-highest"],
)
def test_table_2_gives_the_layouts_printed(assessment: Sria | Csria, expected: tuple[int, ...]) -> None:
    for mask, percent in TABLE_2.items():
        assessment.observe(mask, 10 * percent)
    asked = Workload(3, assessment.frequencies(), 1_000.0, 1_000.0, 10_000.0, PAPER)
    assert select(asked, 4).bits == expected
    truth = Workload(3, {m: f / 100 for m, f in TABLE_2.items()}, 1_000.0, 1_000.0, 10_000.0, PAPER)
    assert truth.cost(expected) <= 1.07 * truth.cost((1, 1, 2))


def test_equation_1_term_by_term() -> None:
    w = Workload(3, {0b100: 0.25, 0b110: 0.75}, 40.0, 10.0, 1_000.0, Prices(hash=3.0, candidate=2.0, bucket=0.0))
    by_hand = 10 * 2 * 3 + 40 * (0.25 * 1 * 3 + 0.75 * 1 * 3) + 40 * (0.25 * 1000 / 4 + 0.75 * 1000 / 4) * 2
    assert w.cost((2, 0, 3)) == pytest.approx(by_hand)
    walked = Workload(3, w.frequencies, 40.0, 10.0, 1_000.0, Prices(hash=3.0, candidate=2.0, bucket=5.0))
    assert walked.cost((2, 0, 3)) == pytest.approx(by_hand + 40 * 8 * 5)


@pytest.mark.parametrize("seed", range(30))
def test_exhaustive_is_brute_force_and_eprune_keeps_the_best(seed: int) -> None:
    random = np.random.default_rng(seed)
    attributes, bits = int(random.integers(1, 4)), int(random.integers(0, 7))
    w = workload(random, attributes)
    every = [b for b in itertools.product(range(bits + 1), repeat=attributes) if sum(b) <= bits]
    best = min(w.cost(b) for b in every)
    assert w.costs(np.array(every, np.int64)).tolist() == pytest.approx([w.cost(b) for b in every])
    assert exhaustive(w, bits).cost == pytest.approx(best)
    assert exhaustive(w, bits).weighed == len(every)
    assert select(w, bits).cost == pytest.approx(best)


@pytest.mark.parametrize("seed", range(10))
def test_a_floor_is_kept_by_both_searches(seed: int) -> None:
    w = workload(np.random.default_rng([seed, 4]), 3)
    chosen = select(w, 9, floor=2)
    every = [b for b in itertools.product(range(2, 6), repeat=3) if sum(b) <= 9]
    assert chosen.cost == pytest.approx(min(w.cost(b) for b in every))
    assert min(chosen.bits) >= 2
    climbed = climb(w, 9, floor=2)
    assert min(climbed.bits) >= 2
    assert sum(climbed.bits) <= 9
    assert chosen.cost <= climbed.cost * (1 + 1e-9)
    with pytest.raises(DefinitionError):
        select(w, 5, floor=2)


def test_the_climb_comes_close_to_exhaustive() -> None:
    random = np.random.default_rng(5)
    gaps = []
    for _ in range(150):
        w = workload(random, int(random.integers(2, 6)))
        bits = int(random.integers(4, 15))
        gaps.append(climb(w, bits).cost / exhaustive(w, bits).cost - 1)
    print(f"mean {np.mean(gaps):.5%}, greatest {max(gaps):.3%}")
    assert min(gaps) >= -1e-9
    # Printed with -s; on these workloads the climb found the best every time.
    assert np.mean(gaps) < 0.001
    assert max(gaps) < 0.01


def test_the_climb_is_used_where_all_are_too_many() -> None:
    w = workload(np.random.default_rng(1), 12, Prices())
    assert space(12, 16) > 20_000
    chosen = select(w, 16)
    assert chosen.weighed < space(12, 16)
    assert chosen.cost <= w.cost((0,) * 12)


def test_lemma_1_layouts_of_exactly_b_bits() -> None:
    for attributes, bits in ((1, 5), (3, 4), (4, 6), (5, 3)):
        counted = sum(1 for b in itertools.product(range(bits + 1), repeat=attributes) if sum(b) == bits)
        assert space(attributes, bits) == counted


@pytest.mark.parametrize("seed", range(20))
def test_lemma_2_dropping_or_folding_a_pattern_moves_no_cost_beyond_the_bound(seed: int) -> None:
    random = np.random.default_rng(seed)
    w = workload(random, 3, Prices(hash=0.0, candidate=1.0, bucket=0.0))
    mask = min(w.frequencies, key=lambda m: w.frequencies[m])
    theta = w.frequencies[mask]
    bound = w.requests * w.stored * theta * w.prices.candidate * (1 + 1e-6)
    rest = {m: f for m, f in w.frequencies.items() if m != mask}
    parent = mask & (mask - 1)
    folded = rest | {parent: rest.get(parent, 0.0) + theta}
    for bits in itertools.product(range(4), repeat=3):
        full = w.cost(bits)
        for fewer in (rest, folded):
            changed = Workload(3, fewer, w.requests, w.arrivals, w.stored, w.prices, w.evenness).cost(bits)
            assert abs(full - changed) <= bound


def stems_and_budget(random: np.random.Generator) -> tuple[list[list[Option]], float]:
    """Three stems, each cheaper the more bits it gets."""
    falling = np.sort(random.uniform(0, 100, (3, 6)), axis=1)[:, ::-1]
    stems = [[Option(float(2**b), float(c)) for b, c in enumerate(costs)] for costs in falling]
    return stems, float(random.integers(3, 70))


@pytest.mark.parametrize("seed", range(20))
def test_division_is_exact_and_greedy_stays_near(seed: int) -> None:
    stems, budget = stems_and_budget(np.random.default_rng(seed))
    fits = [
        t for t in itertools.product(range(6), repeat=3) if sum(stems[s][k].weight for s, k in enumerate(t)) <= budget
    ]
    best = min(sum(stems[s][k].cost for s, k in enumerate(t)) for t in fits)
    found = divide(stems, budget)
    assert found.exact
    assert found.weight <= budget
    assert found.cost == pytest.approx(best)
    near = greedy(stems, budget)
    assert near.weight <= budget
    assert near.cost <= sum(o[0].cost for o in stems)
    assert not divide(stems, budget, frontier=0).exact


def test_how_far_the_greedy_division_is_off() -> None:
    gaps = []
    for seed in range(200):
        stems, budget = stems_and_budget(np.random.default_rng([seed, 9]))
        gaps.append(greedy(stems, budget).cost / divide(stems, budget).cost - 1)
    print(f"greedy above exact: {np.mean(gaps):.1%} on average, {max(gaps):.0%} at most")
    assert min(gaps) >= -1e-9
    assert np.mean(gaps) < 0.03
    assert max(gaps) < 0.6


def test_a_budget_below_the_least_is_refused() -> None:
    with pytest.raises(DefinitionError, match="too small"):
        divide([[Option(4, 1.0)], [Option(4, 1.0)]], 7)


def test_bits_of_mixed_hashes_are_even_and_uneven_values_are_noticed() -> None:
    random = np.random.default_rng(2)
    values = {
        "many": random.integers(0, 1 << 40, 4_000),
        "counted": np.arange(4_000),
        "few": random.integers(0, 50, 4_000),
        "frequent": np.where(random.random(4_000) < 0.5, 7, random.integers(0, 1 << 40, 4_000)),
    }
    keys = np.stack(list(values.values()), axis=1)
    twin = agreement(mixed(keys))
    agree = np.empty_like(twin)
    kernels.agreement(keys, np.empty(1 << (twin.shape[1] - 1), np.int64), agree)
    assert agree.tolist() == twin.tolist()
    found = dict(zip(values, shares(agree, 4_000, 12), strict=True))
    for name in ("many", "counted"):
        assert found[name][:9] == pytest.approx([2.0**-b for b in range(9)], rel=0.25), name
    assert found["few"][12] == pytest.approx(1 / 50, rel=0.1)
    assert found["frequent"][12] == pytest.approx(0.25, rel=0.1)


def test_candidates_follow_the_attributes_known() -> None:
    w = Workload(2, {0b10: 0.5, 0b11: 0.5}, 1.0, 1.0, 1024.0)
    assert w.candidates((3, 2)) == pytest.approx(0.5 * 128 + 0.5 * 32)
    assert attributes_of(0b10, 2) == (0,)
