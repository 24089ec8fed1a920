"""State on its way from the cells of an old cut to those of a new one: read from the checkpoint, written beside it.

The driver reads the state as of the last committed batch and writes what each new cell gets; the cells take it up in the
next batch, and that batch commits both. Cells that are no more are told to drop their state in the same batch. Killed
before the commit, everything begins again from the same committed state; what the killed batch left is told from it by
`leftovers.py`. Where state lies in files, cells read those of the old cut by themselves (`filemoves.py`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from thalweg.engine.identity import lasting, renamed
from thalweg.engine.placing import ByShares
from thalweg.engine.recut import FAILED, Grid, scattered
from thalweg.engine.snapshot import record_in
from thalweg.errors import CheckpointError
from thalweg.execute.shape import Shape
from thalweg.language.algebra import Bound
from thalweg.language.query import Query
from thalweg.plan.shares import Shares
from thalweg.spark.keys import cell_keys
from thalweg.spark.leftovers import opened
from thalweg.spark.seal import check_whole, digest
from thalweg.spark.shared import MEMBERS, Member, by_input, split
from thalweg.state.store import read_ipc, write_ipc

TABLE = "table/"
"""Prefix of the names of table parts. They are written once and are no part of the engine's snapshot."""
SEAL = "thalweg"
"""The part with the stamp of the last write and the seal."""
LINES = pa.schema([("key", pa.int32()), ("name", pa.string()), ("content", pa.binary())])
LINES_DDL = "key int, name string, content binary"


class Moving(Protocol):
    """State of another cut, which cells take up in one batch."""

    @property
    def batch(self) -> int: ...
    def parts(self, key: int) -> dict[str, bytes]:
        """What there is for one cell."""


@dataclass(frozen=True)
class Moved:
    """Where the state lies that the driver has moved, and for which batch; a `Moving`."""

    folder: str
    batch: int
    """The micro-batch in which cells take it up."""
    retired: tuple[int, ...]
    """Keys of cells that are no more."""

    def parts(self, key: int) -> dict[str, bytes]:
        try:
            system, path = opened(self.folder)
            table = pq.read_table(f"{path}/cell={key}", filesystem=system, partitioning=None)
        except (OSError, ValueError, pa.ArrowException) as error:
            raise CheckpointError(
                f"the moved state of cell {key} can't be read: {error}",
                hint="workers must see the checkpoint folder through pyarrow.fs; else keep the old number of cells",
            ) from error
        return dict(zip(table["name"].to_pylist(), table["content"].to_pylist(), strict=True))


@dataclass(frozen=True)
class Mover:
    """Turns the parts of one old cell into lines for new cells."""

    query: Query
    """As the cells run it."""
    shares: Shares
    old: Grid
    shared: Mapping[str, Sequence[str]]
    only: int | None = None
    """The key of the cell to which lines go; None for all."""

    def run(self, key: int, parts: Mapping[str, bytes]) -> Iterator[tuple[int, str, bytes]]:
        check_whole(
            json.loads(parts[SEAL]), {k: digest(v) for k, v in parts.items() if k != SEAL and not k.startswith(TABLE)}
        )
        shape = Shape(self.query, prefiltered=True, leave=True)
        cell, keys = cell_keys(self.old.cells).index(key), cell_keys(self.shares.cells)
        aliases = renamed(record_in(parts)["identity"], shape)
        rest = {name: content for name, content in parts.items() if name != SEAL and not name.startswith(TABLE)}
        only = None if self.only is None else keys.index(self.only)
        for target, name, content in scattered(shape, self.old, self.shares, cell, rest, only):
            yield keys[target], name, content
        if self.only in (None, keys[0]):  # rows set aside are counted on by the first cell
            yield keys[0], f"{FAILED}{cell}", str(json.loads(parts[SEAL]).get("failed", 0)).encode()
        for name, content in parts.items():
            if name.startswith(TABLE):
                for target, part, moved in self._table(shape, cell, _named(name, aliases), content):
                    yield keys[target], part, moved

    def _table(self, shape: Shape, cell: int, name: str, content: bytes) -> Iterator[tuple[int, str, bytes]]:
        """Rows of a table, placed like rows that arrive."""
        group, _, number = name.removeprefix(TABLE).rpartition("/")
        names = lasting(shape)
        for k, (alias, table) in enumerate(by_input(group, read_ipc(content), self.shared)):
            if not self.old.first(cell, names[alias]) or not table.num_rows:
                continue
            bare = table.drop_columns([MEMBERS]) if MEMBERS in table.column_names else table
            member = Member(alias, ByShares(self.shares).placing(shape, alias), None)
            for batch in bare.combine_chunks().to_batches():
                for target, rows in split(batch, [member]):
                    moved = pa.Table.from_batches([rows])
                    if MEMBERS in table.column_names:
                        moved = moved.append_column(MEMBERS, pa.array([1 << k] * len(moved), pa.int64()))
                    # A number of its own: the cell reads all parts of a table, whatever their numbers.
                    yield target, f"{TABLE}{group}/{cell}.{number}.{k}", write_ipc(moved)


def _named(part: str, aliases: Mapping[str, str]) -> str:
    """The name of a table's part under the alias that the table has now.

    >>> _named("table/t/0", {"t": "u"})
    'table/u/0'
    """
    group, _, number = part.removeprefix(TABLE).rpartition("/")
    return f"{TABLE}{aliases.get(group, group)}/{number}"


def tables_of(contents: dict[str, bytes], query: Query | Bound) -> dict[str, bytes]:
    """Take the parts of tables out of a cell's contents, under the aliases that tables have now."""
    parts = {name: contents.pop(name) for name in sorted(contents) if name.startswith(TABLE)}
    aliases: Mapping[str, str] = {}
    if parts and "record" in contents and isinstance(query, Query):
        aliases = renamed(record_in(contents)["identity"], Shape(query, prefiltered=True, leave=True))
    return {_named(name, aliases): content for name, content in parts.items()}


def mover(task: Mover) -> Callable[[pa.Table], pa.Table]:
    """A plain function for groupBy("key").applyInArrow()."""

    def run(table: pa.Table) -> pa.Table:
        parts = dict(zip(table["name"].to_pylist(), table["content"].to_pylist(), strict=True))
        lines = list(task.run(int(table["key"][0].as_py()), parts))
        columns = zip(*lines, strict=True) if lines else ((), (), ())
        return pa.Table.from_arrays([pa.array(c, f.type) for c, f in zip(columns, LINES, strict=True)], schema=LINES)

    return run
