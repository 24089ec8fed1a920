"""Stream-Star with its dimension tables (CBR 6.1): the join engine probes up to eight tables of 10,000 rows.

`star.py` draws pass bits; here each bit becomes a foreign key that its table has or lacks. Half of all keys are in a
table, at random, so the value of a key predicts nothing. Work is buckets looked up and candidates examined, including
profiling. Processor time is that of the whole engine. Content-Knows is told the best order of each class.
"""

from __future__ import annotations

from collections.abc import Callable
from time import process_time

import numpy as np
import pyarrow as pa

from thalweg.contract.batch import Batch
from thalweg.contract.policy import Policy
from thalweg.engine.engine import Engine
from thalweg.lab.simulate import best_order
from thalweg.lab.star import Star
from thalweg.language.bind import bind
from thalweg.language.query import Query, Source
from thalweg.optimize.orders.single import SingleRoute
from thalweg.plan import Pipeline, Route, Ruster

SIZE = 10_000
BATCH = 1000


def tables(star: Star, random: np.random.Generator) -> tuple[pa.Table, dict[str, pa.Table]]:
    """The stream, and its dimension tables."""
    columns = {n: v for n, v in star.columns.items() if not n.startswith("fk")}
    dimensions = {}
    for i in range(star.joins):
        keys = random.permutation(2 * SIZE)
        drawn = random.integers(0, SIZE, len(star.bits))
        columns[f"fk_d{i + 1}"] = np.where(star.bits[:, i], keys[drawn], keys[SIZE + drawn])
        dimensions[f"d{i + 1}"] = pa.table({"pk": keys[:SIZE], "name": np.arange(SIZE)})
    return pa.table({"ts": np.arange(len(star.bits)), **columns}), dimensions


def query(stream: pa.Table, dimensions: dict[str, pa.Table]) -> Query:
    """The query, with tables in the given order."""
    told = [f"s.{n} AS {n}" for n in stream.column_names if n != "ts" and not n.startswith("fk")]
    columns = ", ".join([*told, *(f"{d}.name AS name_{d}" for d in dimensions)])
    equal = " AND ".join(f"s.fk_{d} = {d}.pk" for d in dimensions)
    text = f"SELECT {columns} FROM s [NOW], {', '.join(dimensions)} WHERE {equal}"
    return bind(
        text, {"s": Source(stream.schema, "ts", "ms"), **{d: Source(t.schema) for d, t in dimensions.items()}}
    ).query


def knowing(star: Star) -> Callable[[Pipeline, int], Policy]:
    """Content-Knows: told the best order of each class."""
    classes = np.unique(star.label)
    routes = tuple(Route(best_order(star.bits[star.label == c], [1.0] * star.joins)[0]) for c in classes)

    class Knows(SingleRoute):
        name = "knows"

        def route(self, batch: Batch) -> list[Ruster]:
            labels = batch.data.column("attrC").to_numpy(zero_copy_only=False)
            return [Ruster.mixed(None, routes, np.searchsorted(classes, labels).astype(np.int32))]

    return Knows


Chooser = str | Callable[[Pipeline, int], Policy]
"""A policy's name, or what makes one."""


def looked_up(
    policy: Chooser, stream: pa.Table, dimensions: dict[str, pa.Table], seed: int, batch: int = BATCH
) -> tuple[float, float, int]:
    """Work, processor seconds and number of results."""
    engine = Engine(query(stream, dimensions), policy=policy, seed=seed, tables=dimensions)
    found, began = 0, process_time()
    for start in range(0, stream.num_rows, batch):
        found += engine.push("s", stream.slice(start, batch)).num_rows
        engine.advance()
    took = process_time() - began
    stats = engine.stats()["inputs"]["s"]
    return float(stats["work"] + stats["profiling work"]), took, found


def warmed(
    policy: Chooser, stream: pa.Table, dimensions: dict[str, pa.Table], seed: int, batch: int = BATCH
) -> tuple[float, float, int]:
    """The same after a run over the first batches, enough to learn classes: kernels are loaded before the clock starts."""
    looked_up(policy, stream.slice(0, 20 * batch), dimensions, seed, batch)
    return looked_up(policy, stream, dimensions, seed, batch)
