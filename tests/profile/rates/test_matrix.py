"""The matrix view against the thesis' own per-tuple bookkeeping (figures 4.5 and 4.7), and its worked example."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from thalweg.profile.rates.matrix import MatrixView
from thalweg.profile.rates.window import ProfileWindow

DROPS = {1: (0, 0, 0, 0), 2: (0, 0, 1, 0), 4: (0, 1, 1, 1), 5: (1, 1, 0, 1), 7: (1, 0, 0, 0)}
"""The drop vectors of the worked example (section 4.3.2), filters 1 to 4."""
INPUT = (1, 2, 1, 4, 7, 2, 5, 4)


class PlainView:
    """V kept tuple by tuple, entry by entry."""

    def __init__(self, order: list[int]) -> None:
        self.order = order
        self.V = [[0] * len(order) for _ in order]

    def count(self, drops: tuple[int, ...], sign: int) -> None:
        n = len(self.order)
        first = next(c for c in range(n) if drops[self.order[c]])
        for c in range(first, n):
            if drops[self.order[c]]:
                for r in range(first + 1):
                    self.V[r][c] += sign

    def recount(self, window: list[tuple[int, ...]]) -> None:
        """The definition: tuples dropped at place j among those that nothing before place i drops."""
        n = len(self.order)
        self.V = [
            [
                sum(t[self.order[j]] for t in window if not any(t[self.order[k]] for k in range(i))) if j >= i else 0
                for j in range(n)
            ]
            for i in range(n)
        ]


def random_drops(random: np.random.Generator, count: int, filters: int) -> np.ndarray:
    drops = (random.random((count, filters)) < random.random(filters)).astype(np.uint8)
    return drops[drops.any(axis=1)]


@pytest.mark.parametrize("seed", range(25))
def test_agrees_with_counting_tuple_by_tuple(seed: int) -> None:
    random = np.random.default_rng(seed)
    n = int(random.integers(1, 7))
    order = random.permutation(n).tolist()
    view, twin = MatrixView(order), PlainView(order)
    held: list[tuple[int, ...]] = []
    for _ in range(15):
        came = random_drops(random, int(random.integers(0, 20)), n)
        gone, held = held[: len(came) // 2], held[len(came) // 2 :] + [tuple(t.tolist()) for t in came]
        view.insert(came)
        view.delete(np.array(gone, np.uint8).reshape(-1, n))
        for t in came:
            twin.count(tuple(t.tolist()), +1)
        for t in gone:
            twin.count(t, -1)
        assert view.V.tolist() == twin.V
        twin.recount(held)
        assert view.V.tolist() == twin.V, "the running counts are those of the definition"
        bits = np.array(held, np.uint8).reshape(-1, n)
        for place in range(n):
            assert view.row(place, bits).tolist() == twin.V[place]


@pytest.mark.parametrize("seed", range(25))
def test_moving_a_filter_keeps_every_row_up_to_its_new_place_right(seed: int) -> None:
    random = np.random.default_rng(seed)
    n = int(random.integers(2, 7))
    window = [tuple(t.tolist()) for t in random_drops(random, 60, n)]
    view = MatrixView(random.permutation(n).tolist())
    view.insert(np.array(window, np.uint8))
    source = int(random.integers(1, n))
    target = int(random.integers(0, source))
    wanted = view.order.copy()
    wanted.insert(target, wanted.pop(source))
    view.move(source, target)
    assert view.order == wanted
    twin = PlainView(wanted)
    twin.recount(window)
    assert view.V[: target + 1].tolist() == twin.V[: target + 1]
    # Rows beyond the old place keep their set of filters before them: right without recounting.
    assert view.V[source + 1 :].tolist() == twin.V[source + 1 :]
    view.rebuild(wanted, np.array(window, np.uint8))
    assert view.V.tolist() == twin.V


def probes(order: tuple[int, ...]) -> int:
    count = 0
    for s in INPUT:
        for f in order:
            count += 1
            if DROPS[s][f]:
                break
    return count


def test_worked_example_probe_counts() -> None:
    bits = np.array([[1 - d for d in DROPS[s]] for s in INPUT], np.int8)
    window = ProfileWindow(4, 100)
    window.push(bits)
    for order in permutations(range(4)):
        assert window.cost(order, np.ones(4)) * len(INPUT) == pytest.approx(probes(order))
    assert probes((0, 1, 2, 3)) == 20
    assert probes((2, 1, 3, 0)) == 18
    assert probes((2, 0, 1, 3)) == probes((2, 0, 3, 1)) == min(map(probes, permutations(range(4)))) == 16
    assert max(map(probes, permutations(range(4)))) == 22


def test_worked_example_matrix_view() -> None:
    window = ProfileWindow(4, 6)
    view = MatrixView([2, 0, 1, 3])
    for s in INPUT:
        came, gone = window.push(np.array([[1 - d for d in DROPS[s]]], np.int8))
        view.insert(came)
        view.delete(gone)
    assert window.bits.tolist() == [list(DROPS[s]) for s in (2, 4, 7, 2, 5, 4)]
    assert view.V.tolist() == [[4, 2, 3, 3], [0, 2, 1, 1], [0, 0, 0, 0], [0, 0, 0, 0]]
    assert all(view.V[i, i] >= view.V[i, j] for i in range(4) for j in range(i, 4)), "the order satisfies GI"
