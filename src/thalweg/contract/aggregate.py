"""The contract of a user's own aggregate: a small class whose objects hold the values of one group.

    class Longest:
        def __init__(self): self.counts = Counter()
        def add(self, text): self.counts[text] += 1
        def remove(self, text): self.counts[text] -= 1
        def value(self): return max((len(t) for t, n in self.counts.items() if n > 0 and t is not None), default=None)
        def merge(self, other): self.counts.update(other.counts)

NULL arrives as None. What was added is removed with equal arguments, in any order. State is what `__getstate__` gives
(by default the object's attributes), and must pickle. `thalweg.testing.check_aggregate` tries whether a class keeps this.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class GroupAggregate(Protocol):
    def add(self, *values: Any) -> None:
        """A row enters the group."""
        ...

    def remove(self, *values: Any) -> None:
        """A row with these values leaves."""
        ...

    def value(self) -> Any:
        """The aggregate of what is in the group; a Python value of the result's type, or None for NULL."""
        ...

    def merge(self, other: Any) -> None:
        """Take in what another object of the class holds."""
        ...
