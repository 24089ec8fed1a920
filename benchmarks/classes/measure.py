"""Batches whose rows take 1 to 64 random routes through six filters, or through six look-ups in tables.

The class of a row stands in a column, so that neither learning nor classifying is measured: only what the fabric and the
engine around it do. Python time is the processor time of a batch less that of its operators (predicates, or the join
kernel), as their meter tells it.
"""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import process_time

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thalweg.contract.batch import Batch
from thalweg.contract.visits import Visits
from thalweg.engine.chunks import Chunks
from thalweg.engine.engine import Engine
from thalweg.engine.filtercell import FilterCell
from thalweg.execute.filters import Filter
from thalweg.language.bind import bind
from thalweg.language.query import Source
from thalweg.optimize.orders.single import SingleRoute
from thalweg.plan import Operator, Pipeline, Route, Ruster

CLASSES = (1, 4, 16, 64)
ROWS = (1_000, 4_000, 16_000, 64_000)
OPERATORS = 6
SIZE = 10_000
"""Rows of a table."""


class ByColumn(SingleRoute):
    """Knows the class of a row from a column, and adds up what operators took."""

    name = "by column"

    def __init__(self, pipeline: Pipeline, seed: int, classes: int) -> None:
        super().__init__(pipeline, seed)
        random = np.random.default_rng([seed, classes])
        self.routes = tuple(Route(tuple(random.permutation(len(pipeline)).tolist())) for _ in range(classes))
        self.labels = tuple(f"class {k}" for k in range(classes))
        self.spent = 0.0

    def route(self, batch: Batch) -> list[Ruster]:
        ids = batch.data.column(f"c{len(self.routes)}").to_numpy()
        return [Ruster.mixed(None, self.routes, ids, self.labels)]

    def observe(self, visits: Visits) -> None:
        self.spent += visits.seconds


@dataclass(frozen=True)
class Point:
    """Microseconds a batch: median over rounds, and the median of ratios to one class within a round."""

    kind: str
    rows: int
    classes: int
    total: float
    python: float
    ratio: float


def data(rows: int, random: np.random.Generator) -> pa.RecordBatch:
    columns = {f"x{i}": random.integers(0, 2 * SIZE, rows) for i in range(OPERATORS)}
    ids = {f"c{k}": random.integers(0, k, rows).astype(np.int32) for k in CLASSES}
    return pa.record_batch({"ts": np.arange(rows), **columns, **ids})


def filters(classes: int) -> tuple[Callable[[pa.RecordBatch], object], ByColumn]:
    """Six cheap predicates on Arrow columns; nine rows in ten pass each."""

    def below(i: int) -> Filter:
        return Filter(f"f{i}", lambda x: pc.less(x, pa.scalar(int(1.8 * SIZE))), (f"x{i}",), "arrow")

    judges = [below(i) for i in range(OPERATORS)]
    pipeline = Pipeline("s", tuple(Operator(f.name) for f in judges))
    policy = ByColumn(pipeline, 0, classes)
    return FilterCell(pipeline, judges, policy, chunks=Whole()).feed, policy


class Whole(Chunks):
    """One chunk a batch."""

    def cut(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        yield batch


def joins(classes: int) -> tuple[Callable[[pa.RecordBatch], object], ByColumn]:
    """Six look-ups by key; half of all keys are in their table."""
    tables = {f"t{i}": pa.table({"pk": np.arange(SIZE)}) for i in range(OPERATORS)}
    where = " AND ".join(f"s.x{i} = t{i}.pk" for i in range(OPERATORS))
    named = ", ".join(f"s.c{k} AS c{k}" for k in CLASSES)
    schema = data(1, np.random.default_rng(0)).schema
    sources = {"s": Source(schema, "ts", "ms"), **{n: Source(t.schema) for n, t in tables.items()}}
    query = bind(f"SELECT {named} FROM s [NOW], {', '.join(tables)} WHERE {where}", sources).query
    made: list[ByColumn] = []

    def policy(pipeline: Pipeline, seed: int) -> ByColumn:
        made.append(ByColumn(pipeline, seed, classes))
        return made[-1]

    engine = Engine(query, policy=policy, tables=tables)
    return lambda batch: engine.push("s", batch), made[0]


def measure(kind: str, rows: int, rounds: int) -> list[Point]:
    """All numbers of classes in turn, on the same batches."""
    contenders = [(filters if kind == "filters" else joins)(classes) for classes in CLASSES]
    random = np.random.default_rng(rows)
    each = max(1, 16_000 // rows)
    total, python = np.zeros((rounds, len(CLASSES))), np.zeros((rounds, len(CLASSES)))
    for n in range(-1, rounds):
        batches = [data(rows, random) for _ in range(each)]
        gc.collect()
        for turn in range(len(CLASSES)):
            k = (n + turn) % len(CLASSES)
            push, policy = contenders[k]
            policy.spent, began = 0.0, process_time()
            for batch in batches:
                push(batch)
            spent = process_time() - began
            if n >= 0:  # the first round only warms up
                total[n, k], python[n, k] = spent / each, (spent - policy.spent) / each
    return [
        Point(kind, rows, c, *(1e6 * statistics.median(of[:, k]) for of in (total, python)),
              statistics.median((python[:, k] / python[:, 0]).tolist()))
        for k, c in enumerate(CLASSES)
    ]  # fmt: skip


def points(rounds: int, sizes: Sequence[int] = ROWS) -> Iterator[Point]:
    for kind in ("filters", "joins"):
        for rows in sizes:
            yield from measure(kind, rows, rounds)
