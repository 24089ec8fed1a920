"""Whether values are the same, as rows of a bag are: NULL is NULL, NaN is NaN, and 0.0 is -0.0."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from thalweg.state.columns import fixed_dtype
from thalweg.state.keys import plain, raw, validity

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


def same(array: pa.Array, left: Ints, right: Ints) -> Mask:
    """Of one array: places `left` against places `right`."""
    array = plain(array)
    t = array.type
    if pa.types.is_null(t):
        return np.ones(len(left), np.bool_)
    if pa.types.is_nested(t):
        return _nested(array, left, right)
    valid = validity(array)
    dtype = fixed_dtype(t)
    if pa.types.is_floating(t):
        values = raw(array, f"f{t.bit_width // 8}")
        a, b = values[left], values[right]
        equal = (a == b) | (np.isnan(a) & np.isnan(b))
    elif dtype is not None:
        values = raw(array.cast(pa.uint8()), np.uint8) if pa.types.is_boolean(t) else raw(array, dtype)
        equal = values[left] == values[right]
    else:
        texts = array.cast(pa.large_binary())
        pairs = (texts.take(pa.array(left)), texts.take(pa.array(right)))
        equal = np.asarray(pc.equal(*pairs).fill_null(False).to_numpy(zero_copy_only=False), np.bool_)
    if valid is None:
        return np.asarray(equal, np.bool_)
    a, b = valid[left], valid[right]
    return np.asarray((equal & a & b) | ~(a | b), np.bool_)


def _nested(array: pa.Array, left: Ints, right: Ints) -> Mask:
    """Structs field by field; lists by their lengths, then by their values."""
    valid = validity(array)
    both = np.ones(len(left), np.bool_) if valid is None else valid[left] & valid[right]
    neither = ~both if valid is None else ~valid[left] & ~valid[right]
    if pa.types.is_struct(array.type):
        for column in array.flatten():
            both = both & same(column, left, right)
        return both | neither
    if pa.types.is_map(array.type) or pa.types.is_fixed_size_list(array.type):
        array = array.cast(pa.list_(array.type.value_type)) if not pa.types.is_map(array.type) else array
    offsets = array.offsets.to_numpy()
    size = np.diff(offsets)
    both &= size[left] == size[right]
    which = np.flatnonzero(both)
    lengths = size[left[which]]
    pair = np.repeat(which, lengths)
    within = np.arange(len(pair)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    inner = pa.StructArray.from_arrays([array.keys, array.items], ["k", "v"]) if pa.types.is_map(array.type) else None
    values = array.values if inner is None else inner
    unequal = ~same(values, offsets[left[pair]] + within, offsets[right[pair]] + within)
    both[pair[unequal]] = False
    return np.asarray(both if valid is None else both | neither, np.bool_)
