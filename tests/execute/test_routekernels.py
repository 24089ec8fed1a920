"""The kernels for rows of several routes against their NumPy twins."""

from __future__ import annotations

import numpy as np
import pytest

from thalweg.contract import visits
from thalweg.execute.kernels import join as kernels
from thalweg.execute.kernels import routes


def test_what_the_kernel_counts_is_what_a_journey_tells() -> None:
    names = ("ROWS_IN", "ROWS_OUT", "SURVIVORS", "WORK", "BUCKETS", "HASHES")
    assert [getattr(kernels, n) for n in names] == [getattr(visits, n) for n in names]
    assert kernels.TALLY == visits.COUNTED


@pytest.mark.parametrize("seed", range(20))
def test_rows_are_sorted_by_route_and_keep_their_order(seed: int) -> None:
    random = np.random.default_rng(seed)
    count = int(random.integers(1, 9))
    ids = random.integers(0, count, random.integers(0, 200)).astype(np.int32)
    order, ends = routes.by_route(ids, count)
    assert order.tolist() == np.argsort(ids, kind="stable").tolist()
    assert ends.tolist() == np.searchsorted(np.sort(ids), np.arange(count + 1)).tolist()


@pytest.mark.parametrize("seed", range(20))
def test_rows_are_sorted_by_their_next_operator(seed: int) -> None:
    random = np.random.default_rng(seed)
    count, operators = int(random.integers(1, 9)), int(random.integers(1, 6))
    orders = random.integers(-1, operators, (count, 3))
    ids = random.integers(0, count, 150).astype(np.int32)
    rows = np.flatnonzero(random.random(150) < 0.7)
    place = int(random.integers(3))
    order, ends = routes.by_operator(rows, ids, orders, place, operators)
    due = orders[ids[rows], place]
    due = np.where(due < 0, operators, due)
    assert order.tolist() == rows[np.argsort(due, kind="stable")].tolist()
    assert ends.tolist() == np.searchsorted(np.sort(due), np.arange(operators + 2)).tolist()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_rows_are_counted_by_route_and_operator(seed: int, weighted: bool) -> None:
    random = np.random.default_rng(seed)
    orders = np.array([random.permutation(4) for _ in range(5)])
    ids = random.integers(0, 5, 120).astype(np.int32)
    rows = np.flatnonzero(random.random(120) < 0.8)
    fates = random.integers(0, 3, 120).astype(np.int8)
    weights = random.integers(1, 9, 120) if weighted else np.empty(0, np.int64)
    counts, dropped = np.zeros((5, 4, visits.COUNTED), np.int64), np.full(120, -1, np.int16)
    routes.tally(rows, fates, ids, orders, 2, weights, counts, dropped)
    expected, lost = np.zeros_like(counts), np.full(120, -1)
    for row in rows[fates[rows] != routes.WAVED]:
        op = orders[ids[row], 2]
        weight = weights[row] if weighted else 1
        expected[ids[row], op, visits.ROWS_IN] += weight
        expected[ids[row], op, visits.ROWS_OUT] += weight * (fates[row] == routes.PASSED)
        expected[ids[row], op, visits.WORK] += 1
        lost[row] = op if fates[row] == routes.GONE else -1
    assert counts.tolist() == expected.tolist()
    assert dropped.tolist() == lost.tolist()
