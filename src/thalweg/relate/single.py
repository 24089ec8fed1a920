"""Single: a scalar subquery. There is always one row, all NULL while the child is empty; more than one is an error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from thalweg.contract.relation import Changes, Ints
from thalweg.errors import AggregateError
from thalweg.language.algebra import Single as Node
from thalweg.relate.kernels.queues import lone_rows
from thalweg.relate.rows.dictionary import Dictionary
from thalweg.relate.rows.netting import cancelled, netted, nothing
from thalweg.relate.rows.parts import below, under
from thalweg.state.slice import ALWAYS

COUNT = "count"
NOBODY = -2
"""Before the beginning there is no row at all."""


class Single:
    def __init__(self, node: Node) -> None:
        self.schema = node.schema
        self._rows = Dictionary(node.child.schema)
        self._rows.add_field(COUNT)
        self._alone = NOBODY
        """The row that lives, -1 if it is that of NULLs."""

    def step(self, inputs: Sequence[Changes], frontier: int) -> Changes:
        (given,) = inputs
        if not len(given.sign) and self._alone != NOBODY:
            return nothing(self.schema)
        numbers = self._rows.encode_columns(given.rows.columns, len(given.sign))
        found = netted(numbers, given.time, given.sign, self._rows.place)
        alone = np.empty(len(found.net), np.int64)
        begun = int(self._alone >= 0)
        wrong = lone_rows(
            found.number, found.net, found.time, self._rows.fields[COUNT], begun, max(self._alone, -1), alone
        )
        if wrong >= 0:
            raise AggregateError(
                "a scalar subquery has more than one row", hint="aggregate it, or make its condition name one row"
            )
        time = found.time
        if self._alone == NOBODY and not (len(time) and time[0] == ALWAYS):
            time, alone = np.r_[np.int64(ALWAYS), time], np.r_[np.int64(-1), alone]
        after = np.flatnonzero(np.r_[time[1:] != time[:-1], True])
        changes = self._changes(alone[after], time[after])
        self._alone = int(alone[-1])
        self._rows.touch(found.number)
        self._rows.release(found.number[self._rows.fields[COUNT][found.number] == 0])
        return changes

    def _changes(self, alone: Ints, time: Ints) -> Changes:
        before = np.r_[np.int64(self._alone), alone[:-1]]
        row = np.stack([before, alone], axis=1).reshape(-1)
        sign = np.tile(np.array([-1, 1]), len(alone))
        kept = np.repeat(before != alone, 2) & (row != NOBODY)
        row = row[kept]
        real = row >= 0
        rows = self._rows.rows(row[real])
        which = pa.array(np.maximum(np.cumsum(real) - 1, 0), mask=~real)
        columns = [c.take(which) if len(c) else pa.nulls(len(row), c.type) for c in rows.columns]
        changes = Changes(pa.Table.from_arrays(columns, schema=self.schema), sign[kept], np.repeat(time, 2)[kept])
        return cancelled(changes)  # a row of the child may be all NULL itself

    def size(self) -> int:
        return len(self._rows)

    @property
    def nbytes(self) -> int:
        return self._rows.nbytes

    def snapshot(self) -> dict[str, bytes]:
        return under("rows", self._rows.snapshot()) | {"alone": str(self._alone).encode()}

    def restore(self, parts: Mapping[str, bytes]) -> None:
        self._rows.restore(below("rows", parts))
        self._alone = int(parts["alone"])
