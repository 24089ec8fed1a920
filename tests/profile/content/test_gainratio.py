"""Gain ratio against its definition, the paper's table 1, and what chance gives."""

from __future__ import annotations

from math import log2

import numpy as np
import pytest

from thalweg.profile.content.gainratio import by_chance, entropy, gain, gain_ratio, split_information, variance_share

TABLE_1 = np.array([[0.32, 0.31, 0.27], [0.10, 0.20, 0.90], [0.55, 0.65, 0.60]])
"""Pass rates of O1-O3 for A = a, b, c (example 3.1)."""


def test_example_3_2():
    taken = np.full((3, 3), 100.0)
    ratios = gain_ratio(taken, TABLE_1 * 100)
    # The paper prints 0.33, 0.63 and 0.37; its equations (2)-(5) give these.
    assert ratios == pytest.approx([0.0010, 0.2635, 0.0032], abs=5e-5)
    assert ratios.argmax() == 1
    assert split_information(taken)[0] == pytest.approx(log2(3))


def plain_gain(taken, passed):
    def h(p):
        return 0.0 if p in (0, 1) else -p * log2(p) - (1 - p) * log2(1 - p)

    total = sum(taken)
    return h(sum(passed) / total) - sum(t / total * h(p / t) for t, p in zip(taken, passed, strict=True) if t)


@pytest.mark.parametrize("seed", range(5))
def test_gain_is_the_definition(seed):
    random = np.random.default_rng(seed)
    taken = random.integers(0, 40, 24)
    passed = random.binomial(taken, random.random(24))
    assert gain(taken.astype(float), passed.astype(float)) == pytest.approx(plain_gain(taken.tolist(), passed.tolist()))
    assert entropy(np.array([0.3]))[0] == pytest.approx(plain_gain([10, 0], [3, 0]) + entropy(np.array([0.3]))[0])


def test_chance_is_what_a_meaningless_attribute_gets():
    random = np.random.default_rng(3)
    ratios, chances = [], []
    for _ in range(400):
        part = random.integers(0, 24, 150)
        bits = random.random(150) < 0.5
        taken = np.bincount(part, minlength=24).astype(float)
        passed = np.bincount(part[bits], minlength=24).astype(float)
        ratios.append(float(gain_ratio(taken, passed)))
        chances.append([float(x) for x in by_chance(taken)])
    chance, error = np.mean(chances, axis=0)
    assert np.mean(ratios) == pytest.approx(chance, rel=0.25)
    assert np.std(ratios) == pytest.approx(error, rel=0.25)


def test_nothing_is_gained_from_one_part_or_a_sure_operator():
    assert gain_ratio(np.array([50.0, 0.0]), np.array([20.0, 0.0])) == 0
    assert gain_ratio(np.array([50.0, 50.0]), np.array([50.0, 50.0])) == 0


def test_variance_share_is_the_definition():
    random = np.random.default_rng(4)
    part, rows = random.integers(0, 3, 300), random.poisson(2.0, 300)
    rows[part == 1] *= 4
    taken, total, squares = (np.bincount(part, w).astype(float) for w in (np.ones(300), rows, rows**2))
    means = np.array([rows[part == i].mean() for i in range(3)])
    assert variance_share(taken, total, squares) == pytest.approx(means[part].var() / rows.var())
