"""The profile window against a deque that keeps whole samples, and the cost of an order against a loop over tuples."""

from __future__ import annotations

import json
from collections import deque

import numpy as np
import pytest

from thalweg.profile.rates.window import ProfileWindow


class PlainWindow:
    """Every sampled tuple in a deque; the oldest go until at most `size` of those left were dropped by some filter."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.samples: deque[tuple[int, ...]] = deque()

    @property
    def logged(self) -> list[tuple[int, ...]]:
        return [s for s in self.samples if any(s)]

    @property
    def passed(self) -> int:
        return sum(not any(s) for s in self.samples)

    def push(self, drops: tuple[int, ...]) -> None:
        self.samples.append(drops)
        while len(self.logged) > self.size:
            while not any(self.samples[0]):
                self.samples.popleft()
            self.samples.popleft()

    def keep_newest(self, count: int) -> None:
        while len(self.logged) > count:
            while not any(self.samples[0]):
                self.samples.popleft()
            self.samples.popleft()
        if not self.logged:
            self.samples.clear()


def plain_cost(samples: list[tuple[int, ...]], order: tuple[int, ...], costs: np.ndarray) -> list[float]:
    spent = []
    for drops in samples:
        total = 0.0
        for f in order:
            total += costs[f]
            if drops[f]:
                break
        spent.append(total)
    return spent


@pytest.mark.parametrize("seed", range(30))
def test_agrees_with_a_deque(seed: int) -> None:
    random = np.random.default_rng(seed)
    filters, size = int(random.integers(1, 6)), int(random.integers(1, 30))
    window, twin = ProfileWindow(filters, size), PlainWindow(size)
    costs = random.random(filters) + 0.1
    for _ in range(25):
        count = int(random.integers(0, 12))
        # Pass bits as a journey carries them: an untried filter did not drop.
        passed = random.choice([-1, 0, 1, 1, 1], (count, filters)).astype(np.int8)
        held = window.bits.copy()
        came, gone = window.push(passed)
        for row in passed:
            twin.push(tuple((row == 0).astype(int).tolist()))
        assert window.bits.tolist() == [list(s) for s in twin.logged]
        assert window.passed == twin.passed
        assert len(window) == len(twin.logged) <= size
        everything = np.concatenate([held, came])
        assert everything[: len(gone)].tolist() == gone.tolist(), "what expired are the oldest"
        assert everything[len(gone) :].tolist() == window.bits.tolist()
        order = tuple(random.permutation(filters).tolist())
        if len(window):
            each = plain_cost(twin.logged, order, costs)
            assert window.costs(order, costs).tolist() == pytest.approx(each)
            total = sum(plain_cost(list(twin.samples), order, costs)) / len(twin.samples)
            assert window.cost(order, costs) == pytest.approx(total)
        if random.random() < 0.1:
            keep = int(random.integers(0, size + 1))
            window.keep_newest(keep)
            twin.keep_newest(keep)
            assert (window.bits.tolist(), window.passed) == ([list(s) for s in twin.logged], twin.passed)


def test_a_snapshot_is_json_and_goes_on_the_same() -> None:
    random = np.random.default_rng(3)
    window = ProfileWindow(5, 40)
    for _ in range(30):
        window.push(random.integers(0, 2, (7, 5)).astype(np.int8))
        twin = ProfileWindow(5, 40)
        twin.restore(json.loads(json.dumps(window.snapshot())))
        assert (twin.bits.tolist(), twin.passed, len(twin)) == (window.bits.tolist(), window.passed, len(window))
        more = random.integers(0, 2, (50, 5)).astype(np.int8)
        copy = ProfileWindow(5, 40)
        copy.restore(window.snapshot())
        for a, b in zip(twin.push(more), copy.push(more), strict=True):
            assert a.tolist() == b.tolist()
        assert twin.passed == copy.passed


def test_tuples_that_pass_everything_are_counted_not_kept() -> None:
    window = ProfileWindow(2, 3)
    window.push(np.ones((5, 2), np.int8))
    assert (len(window), window.passed) == (0, 5)
    assert np.isnan(ProfileWindow(2, 3).cost((0, 1), np.ones(2)))
    window.push(np.zeros((1, 2), np.int8))
    assert window.cost((0, 1), np.array([1.0, 2.0])) == pytest.approx((5 * 3.0 + 1.0) / 6)
