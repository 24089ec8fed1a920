"""Emit: how the rows of a query leave. Each row of the output is one element of a stream, at the time of its instant.

`result_time` is that instant. "changes" say in `_change_type` whether a row enters (insert) or leaves (delete), and in
`_change_time` when; within an instant, what leaves goes first. What was there before all time has NULL for its time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.contract.relation import Changes
from thalweg.language.algebra import RESULT_TIME, SIGN, TIME
from thalweg.language.algebra import Emit as Node
from thalweg.relate.instants import TIMESTAMP, Ticks, in_ticks, timestamps
from thalweg.relate.rows.netting import selected
from thalweg.relate.stream import Stream
from thalweg.state.keys import plain, validity

CHANGE_TYPE, CHANGE_TIME = "_change_type", "_change_time"


class Emit:
    """`per`: how many ticks a time counts that is a number or a date."""

    def __init__(self, node: Node, ticks: Ticks = "us", per: int = 1) -> None:
        self._node, self._ticks, self._per = node, ticks, per
        self.schema = node.schema
        if node.kind == "changes" and CHANGE_TYPE not in node.schema.names:
            self.schema = pa.schema([*node.schema, (CHANGE_TYPE, pa.string()), (CHANGE_TIME, TIMESTAMP)])
        elif node.kind == "sent":
            self.schema = pa.schema([*node.schema, (SIGN, pa.int64()), (TIME, pa.int64())])
        every = None if node.every is None else in_ticks(node.every, ticks)
        self._stream = Stream(node.child.schema, node.kind, every)

    def step(self, inputs: Sequence[Changes], frontier: int) -> Changes:
        found = self._stream.step(inputs[0], frontier)
        if self._node.kind == "sent":
            rows = pa.Table.from_arrays([*found.rows.columns, found.sign, found.time], schema=self.schema)
            return Changes(rows, np.ones(len(found.sign), np.int64), found.time)
        count = np.abs(found.sign)
        if (count != 1).any():
            which = np.repeat(np.arange(len(count)), count)
            found = selected(found, which, np.sign(found.sign[which]))
        columns = [self._column(name, source, found) for name, source in self._node.columns]
        if self._node.kind == "changes":
            kinds = pa.array(["delete", "insert"]).take(pa.array((found.sign > 0).astype(np.int8)))
            dtype = self.schema.field(CHANGE_TIME).type
            columns += [kinds, timestamps(found.time, self._ticks, dtype, self._per)]
        rows = pa.Table.from_arrays(columns, schema=self.schema)
        return Changes(rows, np.ones(len(found.sign), np.int64), found.time)

    def _column(self, name: str, source: str, found: Changes) -> pa.Array:
        dtype = self.schema.field(name).type
        if source == RESULT_TIME and source not in found.rows.column_names:
            return timestamps(found.time, self._ticks, dtype, self._per)
        column = found.rows[source]
        return column if column.type == dtype else column.cast(dtype)

    def size(self) -> int:
        return self._stream.size()

    @property
    def nbytes(self) -> int:
        return self._stream.nbytes

    def snapshot(self) -> dict[str, bytes]:
        return self._stream.snapshot()

    def restore(self, parts: Mapping[str, bytes]) -> None:
        self._stream.restore(parts)


def arranged(rows: pa.Table, node: Node) -> pa.Table:
    """A whole answer as ORDER BY, OFFSET and LIMIT ask for it. NaN is above all numbers; ties keep their order."""
    which = pa.array(np.arange(rows.num_rows))
    for name, descending, nulls_first in reversed(node.order):
        column = _sortable(plain(rows[name])).take(which)
        valid = validity(column)
        null = np.zeros(len(column), np.bool_) if valid is None else ~valid
        order = "descending" if descending else "ascending"
        sorted_ = pc.sort_indices(column.filter(pa.array(~null)), sort_keys=[("", order)])
        kept, without = np.flatnonzero(~null)[sorted_.to_numpy()], np.flatnonzero(null)
        parts = [without, kept] if nulls_first else [kept, without]
        which = which.take(pa.array(np.concatenate(parts)))
    end = None if node.limit is None else node.offset + node.limit
    which = which[node.offset : end]
    return rows.take(which)


def _sortable(array: pa.Array) -> pa.Array:
    """Doubles as integers in the same order, with NaN last; lists and structs as ranks."""
    if pa.types.is_nested(array.type):
        keys = [_ranked(value) for value in array.to_pylist()]
        ranks = {key: rank for rank, key in enumerate(sorted(set(keys)))}
        return pa.array([ranks[k] for k in keys], pa.int64(), mask=array.is_null().to_numpy(zero_copy_only=False))
    if not pa.types.is_floating(array.type):
        return array
    values = array.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False) + 0.0
    bits = values.view(np.int64)
    ranks = np.where(bits < 0, ~(bits & np.int64(2**63 - 1)), bits)
    ranks[np.isnan(values)] = 2**63 - 1
    return pa.array(ranks, mask=array.is_null().to_numpy(zero_copy_only=False))


def _ranked(value: Any) -> tuple[Any, ...]:
    """A value as Spark sorts it inside lists and structs: NULL first, NaN last."""
    if value is None:
        return (0,)
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return (1, tuple(map(_ranked, value)))
    unlike = value != value
    return (1, unlike, 0 if unlike else value)
