"""The equi-join of ten streams (query mesh 6.1) in the join engine: uniform data, or Poisson data with three skewed parts.

All streams share a key, so a tuple may visit the nine others in any order. `fanouts[p, s]` is the number of tuples of
stream s that a key of part p meets in a window. The remaining tuples of a stream have keys that occur nowhere else. Keys
are scattered, so their values predict nothing; the other attributes identify the part. Given the fan-outs, the best
single order of each stream and the best order of each part are exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import process_time

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.contract.batch import Batch
from thalweg.contract.policy import Policy
from thalweg.engine.block import BlockEngine
from thalweg.lab.simulate import cheapest
from thalweg.language.bind import bind
from thalweg.language.query import Query, Source
from thalweg.optimize.classes.routeprices import subsets
from thalweg.optimize.orders.single import SingleRoute
from thalweg.plan import Pipeline, Route, Ruster

STREAMS = 10
WINDOW = 2_000
"""In milliseconds, which is also the number of tuples per stream: one arrives every millisecond."""
BATCH = 1_000
FANOUTS = (0.05, 0.4, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.95, 1.0)
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Attributes = Callable[[int, np.random.Generator], tuple[Floats, Ints]]
"""Draws the attributes of a number of tuples, and the part that each belongs to."""
Chooser = str | Callable[[Pipeline, int], Policy]


@dataclass(frozen=True)
class Streams:
    """The streams, the part of each tuple, and what is known in advance."""

    data: dict[str, pa.Table]
    part: dict[str, Ints]
    fanouts: Floats
    """By part and stream."""
    share: Floats
    """Of each part."""

    @property
    def names(self) -> list[str]:
        return list(self.data)

    @property
    def tuples(self) -> int:
        return sum(table.num_rows for table in self.data.values())

    def best(self, pipeline: Pipeline, parts: list[int]) -> Route:
        """The best single order for a stream's tuples of these parts.

        A visit takes one bucket per row in and one candidate per row out, and the rows out are the rows into the next
        visit. So up to a constant, all work is rows in. Tuples whose key occurs nowhere else leave at the first stem.
        """
        stems = [self.names.index(name) for name in pipeline.names]
        weight = self.share[parts] * self.fanouts[parts, self.names.index(pipeline.stream)]
        reach = weight @ np.array([subsets(row[None, :]) for row in self.fanouts[np.ix_(parts, stems)]])
        return Route(cheapest(reach, [1.0] * len(stems))[0])


def draw(attributes: Attributes, tuples: int, random: np.random.Generator) -> Streams:
    """Draw this many tuples of each stream."""
    drawn = [attributes(tuples, random) for _ in range(STREAMS)]
    share = np.bincount(np.concatenate([part for _, part in drawn])) / (tuples * STREAMS)
    fanouts = np.array([random.permutation(FANOUTS) for _ in share])
    first = np.concatenate([[0], np.cumsum(np.ceil(WINDOW * share))])  # as many keys of a part as tuples in a window
    keys = int(first[-1])
    scattered = random.permutation(keys * (STREAMS + 1))
    data, parts = {}, {}
    for s, (values, part) in enumerate(drawn):
        key = (first[part] + random.random(tuples) * np.diff(first)[part]).astype(np.int64)
        shared = random.random(tuples) < fanouts[part, s]
        key = scattered[np.where(shared, key, key + keys * (s + 1))]
        columns = {f"a{j}": values[:, j] for j in range(values.shape[1])}
        data[f"s{s}"] = pa.table({"ts": np.arange(tuples), "k": key, **columns})
        parts[f"s{s}"] = part
    return Streams(data, parts, fanouts, share)


def query(streams: Streams) -> Query:
    """The query outputs all columns, because a policy sees only those that a query reads."""
    columns = [f"{s}.{c} AS {s}_{c}" for s, table in streams.data.items() for c in table.column_names]
    inputs = [f"{s} [RANGE {WINDOW - 1} MILLISECONDS]" for s in streams.data]
    first, *others = streams.names
    equal = [f"{first}.k = {s}.k" for s in others]
    text = f"SELECT {', '.join(columns)} FROM {', '.join(inputs)} WHERE {' AND '.join(equal)}"
    return bind(text, {s: Source(table.schema, "ts", "ms") for s, table in streams.data.items()}).query


def single(streams: Streams) -> Callable[[Pipeline, int], Policy]:
    """SP: an MJoin in which every stream has its best single order."""

    def make(pipeline: Pipeline, seed: int) -> Policy:
        policy = SingleRoute(pipeline, seed)
        policy.plan = policy.plan.with_routes({"": streams.best(pipeline, list(range(len(streams.share))))})
        return policy

    return make


def knowing(streams: Streams) -> Callable[[Pipeline, int], Policy]:
    """Knows the part of each tuple and the best order of each part."""

    class Knows(SingleRoute):
        name = "knows"

        def __post_init__(self) -> None:
            super().__post_init__()
            self.routes = tuple(streams.best(self.pipeline, [p]) for p in range(len(streams.share)))

        def route(self, batch: Batch) -> list[Ruster]:
            part = streams.part[self.pipeline.stream][batch.data.column("ts").to_numpy(zero_copy_only=False)]
            return [Ruster.mixed(None, self.routes, part.astype(np.int32))]

    return Knows


def joined(policy: Chooser, streams: Streams, seed: int, tuples: int | None = None) -> tuple[float, float, int]:
    """Work, processor seconds and results, for the first tuples of each stream or for all."""
    engine = BlockEngine(query(streams), policy=policy, seed=seed)
    length = next(iter(streams.data.values())).num_rows if tuples is None else tuples
    found, began = 0, process_time()
    for start in range(0, length, BATCH):
        for s, table in streams.data.items():
            found += engine.push(s, table.slice(start, BATCH)).num_rows
        found += engine.advance(start + BATCH).num_rows
    found += engine.close().num_rows
    took = process_time() - began
    inputs = engine.stats()["inputs"].values()
    return float(sum(i["work"] + i["profiling work"] for i in inputs)), took, found
