"""How evenly the bits of each join attribute split the stored tuples (AMRI, section 4.1: the best map is even).

Bits are the highest of a well-mixed hash, so the split is uneven only if values are: few distinct ones, or frequent
ones. Measured on a sample: the chance that two tuples agree in the first b bits, which is the share of the tuples that
a probe with a stored value meets. At best 1/2^b, and never below the chance that the values themselves are equal.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MOST = np.iinfo(np.int32).bits
"""Bits reported: a directory of row numbers has no more."""
FINE = 10
"""Size: bits measured, at most: a sample tells nothing about more."""
SAMPLE = (1 << FINE) // 2
"""Derived: stored tuples to sample: enough for hundreds of pairs that agree in `FINE` bits by chance."""


def mixed(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """The hashes that provide the bits: `kernels.mix`, for an array."""
    h = keys.view(np.uint64) * np.uint64(-7046029254386353131 % 2**64)
    h ^= h >> np.uint64(32)
    h *= np.uint64(-4658895280553007687 % 2**64)
    h ^= (h >> np.uint64(29)) & np.uint64(0x7FFFFFFFF)
    return h.view(np.int64)


def agreement(hashes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Per column of hashes and 0 to `FINE` bits, the number of ordered pairs of tuples that agree in the first bits.
    The plain reference of `kernels.agreement`."""
    attributes = hashes.shape[1]
    prefixes = (hashes.view(np.uint64) >> np.uint64(64 - FINE)).astype(np.int64)
    prefixes += np.arange(attributes) << FINE
    # Count once by the longest prefix; dropping a bit merges neighbouring groups.
    sizes = np.bincount(prefixes.ravel(), minlength=attributes << FINE).reshape(attributes, -1)
    agree = np.empty((attributes, FINE + 1), np.int64)
    for b in range(FINE, -1, -1):
        agree[:, b] = (sizes * (sizes - 1)).sum(axis=1)
        if b:
            sizes = sizes[:, ::2] + sizes[:, 1::2]
    return agree


def shares(agree: NDArray[np.int64], n: int, bits: int = MOST) -> list[list[float]]:
    """For each attribute and 0 to `bits` bits, the share of tuples that agree with one of them, estimated without bias
    from a sample of n.

    >>> hashes = np.stack([np.arange(8) << 61, np.zeros(8, np.int64)], axis=1)
    >>> [[round(s, 3) for s in line] for line in shares(agreement(hashes), 8, 3)]
    [[1.0, 0.429, 0.143, 0.125], [1.0, 1.0, 1.0, 1.0]]
    """
    even = np.exp2(-np.arange(bits + 1.0))
    if n < 2:
        return [even.tolist() for _ in agree]
    seen = agree[:, np.minimum(np.arange(bits + 1), FINE)] / (n * (n - 1.0))
    # With little agreement in the sample, assume an even split.
    found: list[list[float]] = np.minimum.accumulate(np.where(seen * n >= 1, seen, even), axis=1).tolist()
    return found
