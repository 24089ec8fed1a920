"""The contract of a scheduler: where rows of several inputs wait, whose go first. It changes cost, never results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable


@runtime_checkable
class Scheduler(Protocol):
    """Orders the inputs of one span of time. It is pure in what it is given and its seed."""

    name: str

    def order(self, waiting: Mapping[str, int]) -> Sequence[str]:
        """The inputs in the order in which their rows are pushed, each once; `waiting` counts the rows of each."""
        ...
