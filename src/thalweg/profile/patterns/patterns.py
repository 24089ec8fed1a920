"""Access patterns as bit masks over a stem's join attributes, and the protocol of classes that count them.

A pattern says which join attributes a probe knows. The first attribute is the highest bit, as in AMRI (section 5.3.1):
of three, ⟨A1, *, *⟩ is 100. A pattern is of search benefit to another that has all its attributes (definition 4).
Invariant of every assessment: a pattern seen in at least θ of the requests is among its frequencies.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol


def mask_of(attributes: Iterable[int], of: int) -> int:
    """
    >>> mask_of([0], 3), mask_of([1, 2], 3)
    (4, 3)
    """
    return sum(1 << (of - 1 - k) for k in attributes)


def attributes_of(mask: int, of: int) -> tuple[int, ...]:
    """
    >>> attributes_of(3, 3)
    (1, 2)
    """
    return tuple(k for k in range(of) if mask >> (of - 1 - k) & 1)


def named(mask: int, names: Sequence[str]) -> str:
    """
    >>> named(5, ["A1", "A2", "A3"])
    '⟨A1, *, A3⟩'
    """
    known = attributes_of(mask, len(names))
    return f"⟨{', '.join(n if k in known else '*' for k, n in enumerate(names))}⟩"


def benefits(index: int, pattern: int) -> bool:
    """Whether an index on the attributes of one pattern helps a search by another (definition 4)."""
    return index & pattern == index


class Assessment(Protocol):
    """Counts the access patterns of one stem over one evaluation window."""

    name: str
    attributes: int
    requests: int
    """Search requests seen since the last reset."""

    def observe(self, mask: int, count: int = 1) -> None:
        """Count search requests with one access pattern."""
        ...

    def frequencies(self) -> dict[int, float]:
        """Share of the requests by pattern, of all kept or only those above the threshold. Sums to at most 1."""
        ...

    def __len__(self) -> int:
        """Patterns kept."""
        ...

    def reset(self) -> None: ...

    def snapshot(self) -> dict[str, Any]:
        """All counts, as plain JSON values."""
        ...

    def restore(self, record: dict[str, Any]) -> None: ...
