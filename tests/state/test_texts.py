"""Columns that stay in Arrow, taken out of their pieces: the same as Arrow's `take` on the whole."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from thalweg.state.columns import read, take
from thalweg.state.texts import Pieces, Texts

TYPES = [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()]


def values(random: np.random.Generator, count: int, dtype: pa.DataType, *, nulls: bool) -> pa.Array:
    words = ["x" * int(n) + str(n) for n in random.choice([0, 1, 7, 8, 9, 40], count)]
    if dtype in (pa.binary(), pa.large_binary()):
        words = [w.encode() for w in words]
    return pa.array([None if nulls and random.random() < 0.3 else w for w in words], dtype)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("nulls", [False, True])
def test_texts_out_of_pieces_are_what_arrow_takes(dtype: pa.DataType, nulls: bool) -> None:
    seed = int(np.random.default_rng().integers(1 << 30))
    print("seed", seed)
    random = np.random.default_rng(seed)
    pieces, firsts, at = [], [], 0
    for count in (5, 1, 64, 17):
        whole = values(random, count + 6, dtype, nulls=nulls and count != 64)
        pieces.append(whole.slice(3, count))  # an offset of its own
        firsts.append(at)
        at += count + 10  # rows between pieces belong to nobody
    rows = np.concatenate([f + random.integers(0, len(p), 30) for f, p in zip(firsts, pieces, strict=True)])
    random.shuffle(rows)
    gap = np.concatenate([np.arange(f, f + len(p)) for f, p in zip(firsts, pieces, strict=True)])
    expected = pa.concat_arrays(pieces).take(pa.array(np.searchsorted(gap, rows)))
    for found in (Texts(dtype, firsts, pieces).take(rows), Pieces(firsts, pieces).take(rows)):
        found.validate(full=True)
        assert found.equals(expected)
        assert found.null_count == expected.null_count


def test_no_rows_and_nothing_but_nulls() -> None:
    nothing = Texts(pa.string(), [0], [pa.array(["a"])]).take(np.empty(0, np.int64))
    assert nothing.equals(pa.array([], pa.string()))
    nulls = Texts(pa.string(), [0], [pa.nulls(3, pa.string())]).take(np.array([2, 0]))
    assert nulls.to_pylist() == [None, None]


def test_a_column_of_rows_that_arrive() -> None:
    column = pa.array(["a", None, "ccc", "dd"]).slice(1)
    assert take(read(column), np.array([2, 0, 1])).to_pylist() == ["dd", None, "ccc"]
