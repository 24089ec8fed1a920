"""How evenly the bits of each join attribute split the stored tuples (AMRI, section 4.1: the best map is even).

Bits are the highest of a well-mixed hash, so tuples are uneven only where values are: few distinct ones, or frequent
ones. Measured on a sample: the chance that two tuples agree in the first b bits, which is the share of the tuples that
a probe with a stored value meets. 1/2^b at best, and never below the chance that the values themselves are equal.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MOST = 20
"""Bits looked at, at most."""


def mixed(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """The hashes that bits are taken from: `kernels.mix`, for an array."""
    h = keys.view(np.uint64) * np.uint64(-7046029254386353131 % 2**64)
    h ^= h >> np.uint64(32)
    h *= np.uint64(-4658895280553007687 % 2**64)
    h ^= (h >> np.uint64(29)) & np.uint64(0x7FFFFFFFF)
    return h.view(np.int64)


def shares(hashes: NDArray[np.int64], bits: int = MOST) -> list[float]:
    """For 0 to `bits` bits, the share of tuples that agree with one of them, estimated without bias from a sample.

    >>> hashes = np.arange(8) << 61
    >>> [round(s, 3) for s in shares(hashes, 3)], shares(np.zeros(8, np.int64), 2)
    ([1.0, 0.429, 0.143, 0.125], [1.0, 1.0, 1.0])
    """
    n = len(hashes)
    if n < 2:
        return [2.0**-b for b in range(bits + 1)]
    ordered = np.sort(hashes.view(np.uint64))
    # The leading bits in which sorted neighbours agree say where each prefix' groups end.
    differ = ordered[1:] ^ ordered[:-1]
    distinct = int(np.count_nonzero(differ))
    found = [1.0]
    for b in range(1, bits + 1):
        ends = np.flatnonzero(differ >> np.uint64(64 - b))
        sizes = np.diff(ends, prepend=-1, append=n - 1)
        agree = float(sizes @ (sizes - 1)) / (n * (n - 1))
        if agree * n < 1:
            # A sample with so little agreement says nothing more: even is then the best guess.
            found += [min(found[-1], 2.0**-k) for k in range(b, bits + 1)]
            break
        found.append(agree)
        if len(ends) == distinct:
            found += [agree] * (bits - b)
            break
    return found
