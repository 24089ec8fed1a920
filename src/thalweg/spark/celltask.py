"""A cell's task: the query, who chooses its routes and layouts, and a fingerprint of its state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from thalweg.contract.report import Stage
from thalweg.engine.engine import Engine
from thalweg.execute.faults import Faults
from thalweg.language.algebra import Bound
from thalweg.language.query import Input, Query
from thalweg.plan.shares import Shares
from thalweg.spark.moved import Moving
from thalweg.spark.onward import Onward
from thalweg.spark.seal import seal
from thalweg.spark.shared import by_input
from thalweg.state.store import read_ipc


@dataclass(frozen=True)
class CellTask:
    """Travels to the workers. Tables do not: they are read when the query runs."""

    query: Query | Bound
    """A join block, or a whole query."""
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
    judged: Query | Bound | None = None
    """The query with the conditions that packing applies."""
    move: Moving | None = None
    """State of an old cut, to take up in one batch."""
    caches: str = "off"
    """A tuner of caches by name."""
    on_error: str = "raise"
    folder: str = ""
    """Where its state lies in files; empty: in Spark's own store."""
    onward: Onward | None = None
    """Where what it makes goes, if other cells go on with it."""

    @property
    def above(self) -> bool:
        """Whether it goes on with what other cells send."""
        return isinstance(self.query, Bound) and self.query.sent is not None

    @property
    def stage(self) -> Stage:
        """As what its cells report."""
        return "above" if self.above else "cell"

    def engine(self, blobs: Iterable[tuple[str, bytes]] = ()) -> Engine:
        """A new engine with the tables in these blobs; a table without any is empty."""
        empty = {i.source: i.spec.schema.empty_table() for i in self.inputs if not i.is_stream}
        parts: dict[str, list[pa.Table]] = {}
        for alias, table in (pair for name, blob in blobs for pair in by_input(name, read_ipc(blob), self.shared)):
            parts.setdefault(alias, []).append(table)
        tables = empty | {alias: pa.concat_tables(own) for alias, own in parts.items()}
        engine = Engine(
            self.query,
            policy=self.policy,
            seed=self.seed,
            tables=tables,
            output="columns" if isinstance(self.query, Query) else None,
            prefiltered=True,
            leave=True,
            index=self.index,
            caches=self.caches,
            idle=self.idle,
        )
        if self.on_error != "raise":
            for block in engine.blocks:
                block.set_aside(Faults(self.on_error == "quarantine"))
        return engine

    @property
    def blocks(self) -> Sequence[Query]:
        return [self.query] if isinstance(self.query, Query) else [leaf.query for leaf in self.query.leaves]

    @property
    def inputs(self) -> Sequence[Input]:
        return [i for block in self.blocks for i in block.inputs]

    @property
    def tables(self) -> frozenset[str]:
        return frozenset(i.source for i in self.inputs if not i.is_stream)

    @property
    def alone(self) -> bool:
        """Whether the query is a plain join of one stream with tables, whose rows need not wait."""
        if not isinstance(self.query, Query):
            return False
        return sum(i.is_stream for i in self.inputs) == 1 and not any(i.window.ordered for i in self.inputs)

    @cached_property
    def seal(self) -> dict[str, Any]:
        """What the state is sealed with."""
        return seal(self.query, self.shares, self.judged or self.query)
