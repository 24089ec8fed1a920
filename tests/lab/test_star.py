"""Stream-Star has the pass rates it says, routing calls are exact, and the mesh lab's searches are priced alike."""

from __future__ import annotations

import numpy as np
import pytest

from thalweg.lab import catalogue, cbr, mesh, star
from thalweg.lab.simulate import order_work


def test_rates_and_aggregate():
    rates = star.skewed(6, 0.2)
    assert rates[0, 0] == 0.2
    assert np.prod(rates, axis=1) == pytest.approx([0.05] * 6)
    random = np.random.default_rng(1)
    drawn = star.draw(rates, 60_000, random)
    for c in range(6):
        assert drawn.bits[drawn.label == c].mean(axis=0) == pytest.approx(rates[c], abs=0.02)
    assert np.prod(star.random_rates(4, 6, random, 0.15), axis=1) == pytest.approx([0.15] * 4)
    assert len(drawn.columns) == 9


def test_knowing_is_the_best_order_of_each_class():
    drawn = star.draw(star.skewed(3, 0.1), 3000, np.random.default_rng(2))
    orders = [(c, *(o for o in range(3) if o != c)) for c in range(3)]
    plain = sum(order_work(drawn.bits[drawn.label == c], orders[c], [1.0] * 3) for c in range(3))
    assert star.knows(drawn) <= plain
    assert star.knows(drawn) == pytest.approx(plain, rel=0.02)


def test_the_breakdown_counts_every_call_once():
    drawn = star.draw(star.skewed(4, 0.05), 30_000, np.random.default_rng(3))
    told = star.breakdown(drawn, 3)
    assert sum(told[k] for k in ("right", "wrong", "none", "profiling")) == pytest.approx(100)
    assert told["calls"] == star.calls_of("cbr", drawn, 3)
    assert told["right"] > 20


def test_the_mesh_lab_draws_parts_with_orders_of_their_own():
    bits, columns = mesh.stream("poisson", 20_000, np.random.default_rng(4))
    part = columns["a0"] == 0
    assert part.mean() == pytest.approx(np.exp(-1), abs=0.02)
    assert abs(bits[part].mean(axis=0) - bits[~part].mean(axis=0)).max() > 0.2
    flat, _ = mesh.stream("uniform", 20_000, np.random.default_rng(4))
    assert sorted(flat.mean(axis=0).round(1)) == pytest.approx([0.0, 0.4, 0.7, 0.8, 0.9, 1.0], abs=0.1)


@pytest.mark.parametrize("group", ["cbr", "mesh"])
def test_the_groups_are_in_the_catalogue(group):
    experiments = catalogue.experiments(group)
    assert [e.name for e in catalogue.find(group)] == [e.name for e in experiments]
    for e in experiments:
        assert e.claims
        assert e.trials(True, 7)
        for figure in e.figures:
            assert catalogue.find(figure) == [e]


def test_one_operator_adds_no_call():
    assert {r["calls"] for r in cbr.one_operator(5000, 1)} == {1.0}
