"""Bag: the rows that live on two sides, how often, and what a rule makes of it at every instant; thesis 2.2, table 2.1.

Distinct and the set operations are rules. It keeps every row that lives on a side once, with two counts, nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from thalweg.contract.relation import Changes
from thalweg.relate.kernels.bags import apply_entries
from thalweg.relate.rows.dictionary import Dictionary
from thalweg.relate.rows.netting import merged, netted, nothing


class Bag:
    def __init__(self, schema: pa.Schema, rule: int) -> None:
        self.schema = schema
        self._rule = rule
        self._rows = Dictionary(schema)
        self._rows.add_field("left")
        self._rows.add_field("right")

    def step(self, inputs: Sequence[Changes], frontier: int) -> Changes:
        if not any(len(i.sign) for i in inputs):
            return nothing(self.schema)
        numbers = np.concatenate([self._rows.encode_columns(i.rows.columns, len(i.sign)) for i in inputs])
        sign, time = np.concatenate([i.sign for i in inputs]), np.concatenate([i.time for i in inputs])
        side = np.repeat(np.arange(len(inputs)), [len(i.sign) for i in inputs])
        if len(inputs) > 1:
            order = merged([i.time for i in inputs])
            numbers, sign, time, side = numbers[order], sign[order], time[order], side[order]
        found = netted(numbers, time, sign, self._rows.place)
        left = found.net
        if len(inputs) > 1:
            left = np.bincount(found.entry, np.where(side == 0, sign, 0), len(found.net)).astype(np.int64)
        fields = self._rows.fields
        out = np.empty(len(left), np.int64)
        apply_entries(self._rule, found.number, left, found.net - left, fields["left"], fields["right"], out)
        self._rows.touch(found.number)
        changed = np.flatnonzero(out)
        rows = self._rows.rows(found.number[changed])
        gone = (fields["left"][found.number] == 0) & (fields["right"][found.number] == 0)
        self._rows.release(found.number[gone])
        return Changes(rows, out[changed], found.time[changed])

    def size(self) -> int:
        return len(self._rows)

    @property
    def nbytes(self) -> int:
        return self._rows.nbytes

    def snapshot(self) -> dict[str, bytes]:
        return self._rows.snapshot()

    def restore(self, parts: Mapping[str, bytes]) -> None:
        self._rows.restore(parts)
