"""Inputs that read one source travel together: a self-join reads, packs and ships its stream once.

Each row carries a bit mask of its inputs. Spark sets the bits by the inputs' plain SQL predicates; packing clears those
that fail Python predicates, and keeps per cell the bits of the inputs that place the row there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.engine.filtercell import FilterCell
from thalweg.engine.placing import Placing

MEMBERS = "__members"
ROW = "__row"
Ints = NDArray[np.int64]


@dataclass
class Member:
    """One input while its source is packed."""

    name: str
    placing: Placing
    sieve: FilterCell | None
    """Its Python predicates, if they may run before its window."""
    came: int = 0
    sent: int = 0
    """Rows sent to cells on its behalf, counting every copy."""

    def take(self, batch: pa.RecordBatch, rows: Ints | None) -> tuple[Ints, Ints, pa.RecordBatch]:
        """The given rows of a batch (None: all) that pass, the first cell of each, and the rows themselves."""
        own = batch if rows is None else batch.take(pa.array(rows))
        self.came += own.num_rows
        rows = np.arange(batch.num_rows) if rows is None else rows
        if self.sieve is not None:
            own = self.sieve.feed(own.append_column(ROW, pa.array(rows)))
            rows = own.column(ROW).to_numpy()
            own = own.drop_columns([ROW])
        base, kept = self.placing.base(own)
        if kept is not None and not kept.all():
            rows, base, own = rows[kept], base[kept], own.filter(pa.array(kept))
        self.sent += len(rows) * len(self.placing.offsets)
        return rows, base, own


def split(batch: pa.RecordBatch, members: Sequence[Member]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of a batch by cell; a row for several cells appears several times."""
    if len(members) > 1:
        yield from _by_cell(*_placed(batch, members))
        return
    _, base, own = members[0].take(batch, None)
    for cell, part in _by_cell(base, own):
        for offset in members[0].placing.offsets.tolist():
            yield cell + offset, part


def _placed(batch: pa.RecordBatch, members: Sequence[Member]) -> tuple[Ints, pa.RecordBatch]:
    """Each row once per cell that gets it, and that cell; its mask names the inputs."""
    masks = batch.column(MEMBERS).to_numpy()
    cells: list[Ints] = []
    rows: list[Ints] = []
    bits: list[Ints] = []
    for k, member in enumerate(members):
        own, base, _ = member.take(batch, np.flatnonzero(masks >> k & 1))
        for offset in member.placing.offsets.tolist():
            cells.append(base + offset)
            rows.append(own)
            bits.append(np.full(len(own), 1 << k, np.int64))
    cell, row, bit = np.concatenate(cells), np.concatenate(rows), np.concatenate(bits)
    order = np.lexsort((row, cell))
    cell, row, bit = cell[order], row[order], bit[order]
    if not len(cell):
        return cell, batch.slice(0, 0)
    first = np.flatnonzero(np.concatenate([[True], (cell[1:] != cell[:-1]) | (row[1:] != row[:-1])]))
    mask = pa.array(np.bitwise_or.reduceat(bit, first))
    at = batch.schema.get_field_index(MEMBERS)
    return cell[first], batch.take(pa.array(row[first])).set_column(at, MEMBERS, mask)


def _by_cell(cell: Ints, rows: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of each cell, in their order."""
    if not len(cell):
        return
    if (cell[1:] < cell[:-1]).any():
        order = np.argsort(cell, kind="stable")
        cell, rows = cell[order], rows.take(pa.array(order))
    starts = [0, *(np.flatnonzero(np.diff(cell)) + 1).tolist(), len(cell)]
    for start, end in pairwise(starts):
        yield int(cell[start]), rows.slice(start, end - start)


def by_input(name: str, table: pa.Table, shared: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, pa.Table]]:
    """Each input's part of a table that came under one name; `shared` lists the inputs of that name."""
    aliases = shared.get(name, (name,))
    if len(aliases) == 1:
        yield aliases[0], table
        return
    masks = table.column(MEMBERS).to_numpy()
    for k, alias in enumerate(aliases):
        yield alias, table.filter(pa.array((masks >> k & 1).astype(bool)))
