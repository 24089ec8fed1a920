"""Page-Hinkley: quiet on noise, quick on a jump, in time on a slow move, in both directions."""

from __future__ import annotations

import json

import numpy as np

from thalweg.profile.content.drift import PageHinkley


def means(random: np.random.Generator, level: float, batches: int, size: int = 200):
    for _ in range(batches):
        values = random.exponential(level, size)
        yield float(values.mean()), float(values.std()) / size**0.5, size


def test_few_false_alarms():
    alarms = 0
    for seed in range(20):
        drift = PageHinkley()
        alarms += sum(drift.observe(*m) for m in means(np.random.default_rng(seed), 1.0, 200))
    assert alarms <= 4


def test_jumps_are_seen_at_once_and_small_moves_soon():
    for seed in range(10):
        for level, within in ((3.0, 1), (0.3, 1), (1.25, 25)):
            random, drift = np.random.default_rng(seed), PageHinkley()
            for m in means(random, 1.0, 20):
                drift.observe(*m)
            assert any(drift.observe(*m) for m in means(random, level, within)), (seed, level)


def test_means_that_move_about_and_go_nowhere_are_no_drift():
    """As in a join fed push by push: every third batch costs twice as much."""
    random, drift = np.random.default_rng(5), PageHinkley()
    alarms, jump = [], 90
    for k in range(jump):
        for m in means(random, 2.0 if k % 3 == 0 else 1.0, 1):
            if drift.observe(*m):
                alarms.append(k)
                drift.reset()
    assert len(alarms) <= 8
    assert sum(k > 45 for k in alarms) <= 3
    assert any(drift.observe(*m) for k in range(6) for m in means(random, 12.0 if k % 3 == 0 else 6.0, 1))


def test_after_a_jump_the_next_ones_are_seen_within_two_batches():
    for seed in range(10):
        random, drift = np.random.default_rng([seed, 6]), PageHinkley()
        for level in (1.0, 3.0, 1.0, 3.0):
            if drift.count:
                assert any(drift.observe(*m) for m in means(random, level, 2)), (seed, level)
            drift.reset()
            assert not any(drift.observe(*m) for m in means(random, level, 20))


def test_it_survives_a_snapshot():
    random, drift = np.random.default_rng(3), PageHinkley()
    for m in means(random, 1.0, 10):
        drift.observe(*m)
    twin = PageHinkley()
    twin.restore(json.loads(json.dumps(drift.snapshot())))
    assert twin.snapshot() == drift.snapshot()
    drift.reset()
    assert drift.count == 0
