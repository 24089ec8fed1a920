"""How evenly the bits of each join attribute split the stored tuples (AMRI, section 4.1: the best map is even).

Bits are the highest of a well-mixed hash, so tuples are uneven only where values are: few distinct ones, or frequent
ones. Measured on a sample: the chance that two tuples agree in the first b bits, which is the share of the tuples that
a probe with a stored value meets. 1/2^b at best, and never below the chance that the values themselves are equal.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MOST = 20
"""Bits spoken of, at most."""
FINE = 12
"""Bits looked at, at most: a sample says nothing of more."""


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
    # Counted once by the longest prefix; a bit less joins neighbouring groups.
    sizes = np.bincount((hashes.view(np.uint64) >> np.uint64(64 - FINE)).astype(np.int64), minlength=1 << FINE)
    agree = []
    for _ in range(FINE + 1):
        agree.append((int(sizes @ sizes) - n) / (n * (n - 1)))
        if len(sizes) > 1:
            sizes = sizes[::2] + sizes[1::2]
    agree.reverse()
    found = [1.0]
    for b in range(1, bits + 1):
        seen = agree[min(b, FINE)]
        # A sample with little agreement says no more: even is then the best guess.
        found.append(seen if seen * n >= 1 else min(found[-1], 2.0**-b))
    return found
