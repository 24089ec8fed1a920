"""Answer: what leaves an engine, under the names that SELECT gives.

Results leave as they are; changes of a relation as `relate/emit.py` says. `result_time` is NULL for what holds from the
beginning. A query over tables only has one answer, sorted and cut as asked.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from thalweg.contract.relation import FOREVER, Changes, Deltas
from thalweg.engine.leaves import times_of
from thalweg.language.algebra import Bound
from thalweg.relate.emit import Emit, arranged
from thalweg.state.slice import ALWAYS


class Answer:
    """Makes output rows."""

    def __init__(self, query: Bound) -> None:
        self.node = query.root
        self.static = query.sent is None and not any(leaf.query.streams for leaf in query.leaves)
        """Whether the query reads tables only."""
        tick, self.scale = times_of(query)
        self._emit = Emit(query.root, tick, self.scale)
        self.schema = self._emit.schema

    def of_results(self, deltas: Deltas) -> pa.Table:
        """New results."""
        ones = np.ones(len(deltas.number), np.int64)
        return self._emit.step([Changes(pa.Table.from_batches([deltas.rows]), ones, deltas.time)], FOREVER).rows

    def of_changes(self, changes: Changes, frontier: int) -> pa.Table:
        """What the changes of a relation up to a frontier bring."""
        return self._emit.step([changes], frontier).rows

    def of_tables(self, changes: Changes) -> pa.Table:
        """The answer of a query over tables only."""
        which = np.repeat(np.arange(len(changes.sign)), np.maximum(changes.sign, 0))
        rows = arranged(changes.rows.take(pa.array(which)), self.node)
        always = np.full(rows.num_rows, ALWAYS)
        return self._emit.step([Changes(rows, np.ones(len(always), np.int64), always)], FOREVER).rows

    def waiting(self) -> int:
        """Rows that wait for a multiple of EVERY, or live."""
        return self._emit.size()

    def snapshot(self) -> dict[str, bytes]:
        return self._emit.snapshot()

    def restore(self, parts: Mapping[str, bytes]) -> None:
        self._emit.restore(parts)


def answer_schema(query: Bound) -> pa.Schema:
    """The columns of a query's answer, known before any engine is made."""
    return Answer(query).schema
