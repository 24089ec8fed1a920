"""A cell's task: the query, who chooses its routes and layouts, and a fingerprint of its state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from thalweg.engine.engine import Engine
from thalweg.language.query import Query
from thalweg.plan.shares import Shares
from thalweg.spark.shared import by_input
from thalweg.state.store import read_ipc


@dataclass(frozen=True)
class CellTask:
    """Travels to the workers. Tables do not: they are read when the query runs."""

    query: Query
    policy: str
    seed: int
    shares: Shares
    idle: Mapping[str, int]
    """By alias, microseconds of the others' time after which a silent stream no longer holds back eviction."""
    token: str
    """Identifies this definition of the query, to which workers' caches belong."""
    control: str = ""
    """The folder and name of the driver's orders."""
    key: str = ""
    shared: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Inputs that travel together, by the name of their rows (`shared.py`)."""
    index: str = "hash"
    """A fixed layout, or an index tuner by name."""

    def engine(self, blobs: Iterable[tuple[str, bytes]] = ()) -> Engine:
        """A new engine with the tables in these blobs; a table without any is empty."""
        empty = {i.alias: i.spec.schema.empty_table() for i in self.query.inputs if not i.is_stream}
        parts: dict[str, list[pa.Table]] = {}
        for alias, table in (pair for name, blob in blobs for pair in by_input(name, read_ipc(blob), self.shared)):
            parts.setdefault(alias, []).append(table)
        tables = empty | {alias: pa.concat_tables(own) for alias, own in parts.items()}
        return Engine(
            self.query,
            policy=self.policy,
            seed=self.seed,
            tables=tables,
            output="columns",
            prefiltered=True,
            leave=True,
            index=self.index,
            idle=self.idle,
        )

    @property
    def fingerprint(self) -> dict[str, str]:
        """What must not change under a checkpoint, by name."""
        inputs = {
            f"input '{i.alias}'": f"{i.source} {i.window} {i.spec.schema.to_string()} {i.spec.time}"
            for i in self.query.inputs
        }
        keys = "; ".join(" = ".join(map(str, k.columns)) for k in self.query.block.keys)
        shape = {"number of cells": str(self.shares.cells), "join keys": keys, "shares": str(self.shares.sizes)}
        return {"query text": self.query.text} | shape | inputs
