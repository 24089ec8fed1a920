"""The reservoir forgets exponentially, keeps content and bits together, and survives a snapshot."""

from __future__ import annotations

import json

import numpy as np
import pytest

from thalweg.profile.content.reservoir import Reservoir


def test_the_age_of_tuples_falls_off_exponentially():
    random = np.random.default_rng(1)
    ages = []
    for _ in range(30):
        r = Reservoir(50, 1)
        for start in range(0, 600, 20):
            numbers = np.arange(start, start + 20, dtype=np.float32)[:, None]
            r.add(numbers, np.ones((20, 1), np.int8), random)
        ages += (599 - r.values[:, 0]).tolist()
    assert np.mean(ages) == pytest.approx(49, rel=0.15)
    assert np.mean(np.array(ages) < 49 * np.log(2)) == pytest.approx(0.5, abs=0.06)


def test_content_and_bits_stay_together():
    random, r = np.random.default_rng(2), Reservoir(30, 3)
    for _ in range(20):
        x = random.integers(0, 2, (7, 1)).astype(np.float32)
        r.add(x, np.repeat(x, 3, axis=1).astype(np.int8), random)
    assert (r.values == r.bits).all()
    r.forget(r.values[:, 0] == 1)
    assert not r.bits.any()
    twin = Reservoir(30, 3)
    twin.restore(json.loads(json.dumps(r.snapshot())))
    assert twin.values.tolist() == r.values.tolist()
    assert twin.bits.tolist() == r.bits.tolist()


def test_no_operators_and_no_tuples():
    r = Reservoir(5, 0)
    r.add(np.zeros((0, 2), np.float32), np.zeros((0, 0), np.int8), np.random.default_rng(1))
    twin = Reservoir(5, 0)
    twin.restore(r.snapshot())
    assert len(twin) == 0
