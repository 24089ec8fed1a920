"""DIA: the counts of SRIA as nodes of a lattice (AMRI, section 5.4.1). Exact; records which pattern helps which.

A node's parents have one attribute less and are of search benefit to it; the top node has none and means a full scan.
The lattice is never stored: the masks imply it.
"""

from __future__ import annotations

from thalweg.profile.patterns.sria import Sria


def parents(mask: int) -> list[int]:
    """The nodes one level up, starting with the one that lacks the first attribute.

    >>> [f"{p:03b}" for p in parents(0b110)]
    ['010', '100']
    """
    bits = [1 << k for k in range(mask.bit_length() - 1, -1, -1) if mask >> k & 1]
    return [mask & ~bit for bit in bits]


def level(mask: int) -> int:
    """The number of attributes of a pattern."""
    return mask.bit_count()


class Dia(Sria):
    """Dependent index assessment.

    >>> dia = Dia(3)
    >>> for mask in (0b100, 0b110, 0b001):
    ...     dia.observe(mask)
    >>> [f"{leaf:03b}" for leaf in dia.leaves()]
    ['110', '001']
    """

    name = "dia"

    def leaves(self) -> list[int]:
        """Nodes of no benefit to any other node."""
        kept = sorted(self.counts, key=lambda m: (-level(m), m))
        return [m for m in kept if not any(m != k and m & k == m for k in kept)]

    def benefit(self, mask: int) -> float:
        """Share of the requests that an index on this pattern helps."""
        return sum(c for m, c in self.counts.items() if mask & m == mask) / max(self.requests, 1)
