"""The simulation of shares counts every copy once, and what it says of copies is what the shares say."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.shares.simulate import EDGES, loads, points, query, tuples

from thalweg.optimize import shares as sharing


@pytest.mark.parametrize("shape", EDGES)
@pytest.mark.parametrize("cells", [2, 6, 64])
def test_loads_add_up_to_the_copies(shape, cells):
    q = query(shape)
    shares, _ = sharing.for_query(q, cells)
    got = loads(q, shares, tuples(q, "uniform", 500, seed=3))
    assert len(got) == cells
    assert got.sum() == sharing.copied(q, shares, [500] * 4)


def test_declared_rates_change_the_cut():
    q = query("chain")
    even, _ = sharing.for_query(q, 4)
    skewed, _ = sharing.for_query(q, 4, [1, 1, 1, 100])
    assert even.sizes == (2, 1, 2)
    assert skewed.sizes == (1, 1, 4)  # d is fast: cut by its key alone, d is never copied
    assert sharing.copied(q, skewed, [1, 1, 1, 100]) < sharing.copied(q, even, [1, 1, 1, 100])


def test_one_frequent_value_bounds_the_speed_up():
    found = {(p.shape, p.keys, p.cells): p for p in points(2_000)}
    for shape in EDGES:
        uniform, zipf = (found[shape, keys, 1000] for keys in ("uniform", "zipf"))
        assert uniform.copies == zipf.copies
        assert zipf.busiest > uniform.busiest
    assert np.isclose(found["chain", "uniform", 4].copies, 2.0)
