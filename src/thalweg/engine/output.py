"""Output: results leave the engine as Arrow, in chunks worth their while, to a sink or collected into one table.

They are written to a sheet (`execute/sheet.py`), by the join's kernel itself where nothing judges them any more.
The columns are those of SELECT where all are plain columns, else every column that SELECT and the predicates left to
the caller need, and the time of the result.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.engine.sources import Sources
from thalweg.errors import DefinitionError
from thalweg.execute.arrival import Arrival
from thalweg.execute.kernels.gather import gather
from thalweg.execute.operators.stem import Stems
from thalweg.execute.shape import Shape
from thalweg.execute.sheet import Sheet
from thalweg.language.query import Column
from thalweg.state.columns import to_arrow
from thalweg.state.keys import plain_type

if TYPE_CHECKING:
    from thalweg.engine.lifetimes import Lifetimes

Ints = NDArray[np.int64]
Sink = Callable[[pa.RecordBatch], None]
Kind = Literal["select", "columns"]
RESULT_TIME = "result_time"


class Output:
    """Where results go. `kind` None stands for "select" where that is possible."""

    def __init__(self, shape: Shape, sources: Sources, stems: Stems, kind: Kind | None, enough: int) -> None:
        self.shape = shape
        self.sources = sources
        self.stems = stems
        self.columns = self._choose(kind)
        self.schema = pa.schema([(name, dtype) for name, _, dtype in self.columns])
        self.nothing = self.schema.empty_table()
        self.count = 0
        self._sink: Sink | None = None
        self._chunks: list[pa.RecordBatch] = []
        kinds = [(column, dtype) for _, column, dtype in self.columns]
        times = next((dtype for column, dtype in kinds if column is None), pa.int64())
        self._sheet = Sheet(stems, kinds, partial(self._times, times), enough)
        self._held: list[Ints] = []
        """The results on the sheet, for lifetimes."""
        self.lifetimes: Lifetimes | None = None
        """Where results with their lifetimes go, if anybody asked for them."""

    def _choose(self, kind: Kind | None) -> list[tuple[str, Column | None, pa.DataType]]:
        """Name, column and type of each output column; the result's time has no column."""
        asked = self.shape.query.output
        plain = all(o.column is not None for o in asked) and not self.shape.left
        if kind == "select" and not plain:
            texts = [o.text for o in asked if o.column is None] + self.shape.left
            raise DefinitionError(
                f"only Spark can evaluate {', '.join(repr(t) for t in texts)}",
                hint='output="columns" gives the columns that they need',
            )
        if kind == "select" or (kind is None and plain):
            return [(o.name, o.column, self._type(o.column)) for o in asked if o.column is not None]
        columns: list[tuple[str, Column | None, pa.DataType]] = [(str(c), c, self._type(c)) for c in self.shape.needed]
        return [*columns, (RESULT_TIME, None, self._time_type())]

    def _type(self, column: Column) -> pa.DataType:
        return plain_type(self.shape.query.input(column.input).spec.schema.field(column.name).type)

    def _time_type(self) -> pa.DataType:
        """The streams' own time type where they agree, else a timestamp in ticks."""
        inputs = [i for i in self.shape.query.inputs if i.spec.time is not None]
        types = {self._type(Column(i.alias, str(i.spec.time))) for i in inputs}
        units = {f.clock.scale for f in self.sources.streams if f.clock is not None}
        return types.pop() if len(types) == 1 and len(units) == 1 else pa.timestamp(self.sources.tick, "UTC")

    def into(self, sink: Sink | None) -> None:
        """Where the results of the call that begins now go. What one that raised left behind is dropped: it points into rows
        that are gone."""
        self._sink, self._chunks, self._held = sink, [], []
        self._sheet.clear()

    def sheet(self) -> Sheet | None:
        return self._sheet if self.lifetimes is None else None

    def receive(self, i: int, arrival: Arrival, chunk: Ints) -> None:
        sheet, first = self._sheet, 0
        while first < len(chunk):
            part = chunk[first : first + sheet.room - sheet.at]
            gather(part, sheet.lines(i, arrival), sheet.at)
            sheet.at += len(part)
            first += len(part)
            if self.lifetimes is not None:
                self._held.append(part.copy())
            if sheet.at == sheet.room:
                self.flush(i, arrival)

    def settle(self, i: int, arrival: Arrival) -> None:
        """These rows of input i are through: hand on what points into them."""
        if self._sheet.borrows or self.lifetimes is not None:
            self.flush(i, arrival)

    def flush(self, i: int, arrival: Arrival | None) -> None:
        """Hand on what the sheet holds; it points into these rows of input i, if into any."""
        count = self._sheet.at
        if not count:
            return
        self.count += count
        held = None if self.lifetimes is None else np.concatenate(self._held)
        self._held, at = [], 0
        for arrays in self._sheet.hand_on(i, arrival):
            batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
            if self.lifetimes is not None and held is not None:
                self.lifetimes.opened(i, held[at : at + batch.num_rows], batch)
            at += batch.num_rows
            if self._sink is not None:
                self._sink(batch)
            else:
                self._chunks.append(batch)

    def _times(self, dtype: pa.DataType, times: Ints) -> pa.Array:
        if not self.shape.streams:
            return pa.nulls(len(times), dtype)
        first = self.shape.query.inputs[self.shape.streams[0]]
        clock = self.sources.feeds[first.source].clock
        assert clock is not None
        own = dtype == self._type(Column(first.alias, str(clock.spec.time)))
        values = pa.array(times // clock.scale if own else times)
        if pa.types.is_integer(dtype):
            return values.cast(dtype)
        width = dtype.bit_width // 8
        return to_arrow(dtype, np.asarray(values).astype(f"i{width}"), None)

    def collect(self) -> pa.Table:
        """What the call brought, unless it went to a sink."""
        self.flush(-1, None)
        chunks, self._chunks, self._sink = self._chunks, [], None
        return pa.Table.from_batches(chunks, self.schema) if chunks else self.nothing
