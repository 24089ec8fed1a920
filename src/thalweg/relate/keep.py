"""Keep: the rows for which a condition is true. It keeps no state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from thalweg.contract.relation import Changes
from thalweg.language.algebra import Keep as Node
from thalweg.relate.evaluate import columns_of, holds
from thalweg.relate.instants import Ticks
from thalweg.relate.rows.netting import nothing, selected


class Keep:
    def __init__(self, node: Node, ticks: Ticks = "us") -> None:
        self.schema = node.schema
        self._condition = node.condition
        self._ticks = ticks

    def step(self, inputs: Sequence[Changes], frontier: int) -> Changes:
        (given,) = inputs
        if not len(given.sign):
            return nothing(self.schema)
        mask = holds(self._condition, columns_of(given, self._ticks), len(given.sign))
        return given if mask.all() else selected(given, np.flatnonzero(mask))

    def size(self) -> int:
        return 0

    def snapshot(self) -> dict[str, bytes]:
        return {}

    def restore(self, parts: Mapping[str, bytes]) -> None:
        pass
