"""Aggregates of groups that grow and shrink. `accumulator(...)` finds the one for a function and its arguments."""

from thalweg.relate.aggregates.choose import accumulator, needed

__all__ = ["accumulator", "needed"]
