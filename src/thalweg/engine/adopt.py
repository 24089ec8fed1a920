"""Adopting: an engine takes up rows that a similar one stored, when its windows, columns or cells are others by now.

A stored row is its time, the codes of its join keys and the columns carried. That is all a stem needs to store it again
under another window, and all that placing needs to send it to another cell. What can be rebuilt (indexes) or learned
again (routes under other names) is left behind. Row windows depend on an order and are not adopted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from thalweg.errors import CheckpointError
from thalweg.state.columns import read
from thalweg.state.kernels.layout import KEYS, MEMBERS, TIME
from thalweg.state.keys import plain
from thalweg.state.store import read_ipc

if TYPE_CHECKING:
    from thalweg.engine.block import BlockEngine

Record = Mapping[str, Any]


def stored(record: Record, parts: Mapping[str, bytes]) -> Iterator[tuple[str, pa.Table]]:
    """The stored rows in a snapshot, by the alias they had, as their slices hold them."""
    for name, stem in record["stems"].items():
        tables = [read_ipc(parts[f"slice/{name}/{number}"]) for number, *_ in stem["slices"]]
        if tables:
            yield name, pa.concat_tables(tables)


def adoptable(engine: BlockEngine, record: Record) -> None:
    """Raise if the rows of this snapshot can't be stored again."""
    shared = [s.name for s in engine.shape.stores if len(s.inputs) > 1]
    if engine.shape.ordered or shared or engine.flow.output.lifetimes is not None or record["lifetimes"] is not None:
        what = "row windows" if engine.shape.ordered else "a shared source" if shared else "relations"
        raise CheckpointError(
            f"the state of a query with {what} can't be moved to another window, column or number of cells",
            hint="restore what changed, or start from a new checkpoint folder",
        )


def adopt(
    engine: BlockEngine, was: Record, rows: Mapping[str, Sequence[pa.Table]], clocks: Mapping[str, Sequence[int]]
) -> None:
    """Store rows, by the alias they have here. `was` is the identity of the engine that stored them, and `clocks` the
    watermark, the newest time and the counts of each source."""
    by_alias = {entry["alias"]: entry for entry in was["inputs"].values()}
    named = engine.aliases_before
    for name, values in clocks.items():
        feed = engine.feeds[name]
        feed.watermark, feed.newest, feed.rows, feed.late, feed.timeless, feed.released = values
    for store in engine.shape.stores:
        alias = store.aliases[0]
        tables = rows.get(alias, ())
        if tables:
            old = by_alias[named.get(alias, alias)]
            _store(engine, store.name, store.attributes, pa.concat_tables(tables), old["attributes"])


def _store(
    engine: BlockEngine, name: str, attributes: Sequence[tuple[str, str]], table: pa.Table, before: Sequence[list[str]]
) -> None:
    stem = engine.flow.stems[name]
    table = table.filter(pa.array(table[f"cell.{MEMBERS}"].to_numpy() != 0))
    table = table.take(pa.array(np.argsort(table[f"cell.{TIME}"].to_numpy(), kind="stable"))).combine_chunks()
    cells = np.empty((table.num_rows, KEYS + len(attributes)), np.int64)
    cells[:, TIME], cells[:, MEMBERS] = table[f"cell.{TIME}"].to_numpy(), 1
    for k, attribute in enumerate(attributes):
        cells[:, KEYS + k] = table[f"cell.{KEYS + before.index(list(attribute))}"].to_numpy()
    columns = {}
    for column, dtype in stem.columns.items():
        here = f"column.{column}"
        columns[column] = read(plain(table[here]) if here in table.column_names else pa.nulls(table.num_rows, dtype))
    stem.build(cells, columns, np.arange(table.num_rows))
