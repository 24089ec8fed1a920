"""Project: columns computed row by row. It keeps no state; rows that become equal may cancel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from thalweg.contract.relation import Changes
from thalweg.language.algebra import Project as Node
from thalweg.language.scalar.expression import Field
from thalweg.relate.evaluate import columns_of, evaluated
from thalweg.relate.instants import Ticks
from thalweg.relate.rows.netting import cancelled, nothing


class Project:
    def __init__(self, node: Node, ticks: Ticks = "us") -> None:
        self.schema = node.schema
        self._columns = [node.columns[name] for name in node.schema.names]
        self._ticks = ticks
        kept = {e.key for e in self._columns if isinstance(e, Field)}
        self._injective = set(node.child.schema.names) <= kept

    def step(self, inputs: Sequence[Changes], frontier: int) -> Changes:
        (given,) = inputs
        if not len(given.sign):
            return nothing(self.schema)
        columns = columns_of(given, self._ticks)
        arrays = [evaluated(e, columns, len(given.sign)) for e in self._columns]
        if arrays:
            cast = [a if a.type == f.type else a.cast(f.type) for a, f in zip(arrays, self.schema, strict=True)]
            rows = pa.Table.from_arrays(cast, schema=self.schema)
        else:
            rows = given.rows.select([])
        changes = Changes(rows, given.sign, given.time)
        return changes if self._injective else cancelled(changes)

    def size(self) -> int:
        return 0

    def snapshot(self) -> dict[str, bytes]:
        return {}

    def restore(self, parts: Mapping[str, bytes]) -> None:
        pass
