"""A rehearsal of a join on a sample: its work in the written order and under a policy, and what has to be stored.

Spark joins two inputs at a time, in the written order, and each such join of streams keeps both its sides: so Spark
stores every intermediate result for as long as it can still find a partner. That number is exact for the sample: the
intermediate results are the results of the query's first inputs, with their lifetimes (`contract/relation.py`). What
Thalweg has to store are the rows in the windows, counted the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from thalweg.contract.relation import FOREVER, Closings, Deltas
from thalweg.engine.engine import Engine
from thalweg.execute.meter import own_nanoseconds
from thalweg.language.query import Block, OutputColumn, Query

STEPS = 32
"""Size: batches of a rehearsal: enough for a policy to learn between, and to see state come and go."""
COUNTED = 5_000_000
"""Size: intermediate results after which counting ends: the answer is then 'more'."""
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class JoinWay:
    """One way to choose the join orders."""

    name: str
    work: float
    """Buckets looked up and candidates examined."""
    seconds: float
    orders: Mapping[str, tuple[str, ...]]
    """By input, the order in the end."""


@dataclass(frozen=True)
class BinaryJoin:
    """One of Spark's binary joins: what it keeps at its peak."""

    left: tuple[str, ...]
    right: str
    rows: int
    more: bool = False
    """Whether counting ended early."""


@dataclass(frozen=True)
class JoinRehearsal:
    """What came of it."""

    rows: Mapping[str, int]
    results: int
    policy: str
    written: JoinWay
    learned: JoinWay
    stored: int
    """The most rows that the windows hold at once, tables left out: what Thalweg has to keep. With windows that count
    rows, what the engine kept."""
    spark: tuple[BinaryJoin, ...]
    """Spark's joins of streams. Empty where it has none."""
    refused: str = ""
    """Why Spark's state could not be told."""

    @property
    def spark_stored(self) -> int:
        """At the peak of each join; they need not fall together."""
        return sum(s.rows for s in self.spark)


def rehearse_join(
    query: Query, rows: Mapping[str, pa.Table], times: Mapping[str, Ints], policy: str = "auto", seed: int = 0
) -> JoinRehearsal:
    """`rows` by alias: those of streams in the order of their `times`, which count the same unit, and tables whole."""
    ways = {name: _run(query, rows, times, name, seed) for name in ("written", policy)}
    (written, results, stored), (learned, *_) = ways["written"], ways[policy]
    steps, refused = _binary(query, rows, times)
    if all(i.window.kind in ("range", "now") for i in query.streams):
        stored = sum(_peak(_only(query.block, query.inputs.index(i)), query, rows, times)[0] for i in query.streams)
    counts = {alias: table.num_rows for alias, table in rows.items()}
    return JoinRehearsal(counts, results, policy, written, learned, stored, steps, refused)


def _run(
    query: Query, rows: Mapping[str, pa.Table], times: Mapping[str, Ints], policy: str, seed: int
) -> tuple[JoinWay, int, int]:
    """The way, its results, and the most rows stored at once."""
    engine, stored = _engine(query, rows, policy, seed), 0
    started = own_nanoseconds()
    for batch in _batches(rows, times):
        engine.take_batch(batch, newest=None, into=_drop)
        engine.advance(into=_drop)
        inputs = engine.stats()["inputs"]
        stored = max(stored, sum(inputs[i.alias]["stored"] for i in query.streams))
    took = (own_nanoseconds() - started) / 1e9
    engine.close(into=_drop)
    inputs = engine.stats()["inputs"]
    orders = {alias: max(routes.values(), key=len) for alias, routes in engine.plan().routes.items()}
    return JoinWay(policy, sum(i["work"] for i in inputs.values()), took, orders), engine.count, stored


def _engine(
    query: Query, rows: Mapping[str, pa.Table], policy: str, seed: int = 0, deltas: _Lives | None = None
) -> Engine:
    tables = {i.alias: rows[i.alias] for i in query.inputs if not i.is_stream}
    return Engine(
        query, policy=policy, seed=seed, tables=tables, output="columns", prefiltered=True, leave=True, deltas=deltas
    )


def _drop(found: pa.RecordBatch) -> None:
    """Results are counted, not kept."""


def _batches(rows: Mapping[str, pa.Table], times: Mapping[str, Ints]) -> list[dict[str, pa.Table]]:
    """The rows of all streams, cut into equal spans of time."""
    alive = [t for t in times.values() if len(t)]
    if not alive:
        return []
    first, last = min(int(t[0]) for t in alive), max(int(t[-1]) for t in alive)
    ends = np.linspace(first, last + 1, STEPS + 1)[1:]
    cuts = {a: np.concatenate([[0], np.searchsorted(t, ends)]) for a, t in times.items()}
    return [
        {a: rows[a].slice(int(c[k]), int(c[k + 1] - c[k])) for a, c in cuts.items() if c[k + 1] > c[k]}
        for k in range(STEPS)
    ]


# Spark's plan


def _binary(
    query: Query, rows: Mapping[str, pa.Table], times: Mapping[str, Ints]
) -> tuple[tuple[BinaryJoin, ...], str]:
    """Each binary join of streams in the written order, with the most rows that its state needs at once."""
    if any(i.window.kind not in ("range", "now") for i in query.streams):
        return (), "Spark has no joins over windows that count rows"
    steps, streams = [], [i.is_stream for i in query.inputs]
    for k in range(1, len(query.inputs)):
        if not (streams[k] and any(streams[:k])):
            continue
        left = query.inputs[:k]
        part = _first(query.block, k)
        if not _keyed(query.block, k) or (k > 1 and not part.keys):
            return (), f"Spark refuses to join {query.inputs[k].alias} without an equality"
        (left_peak, more), (right_peak, _) = (_peak(b, query, rows, times) for b in (part, _only(query.block, k)))
        steps.append(BinaryJoin(tuple(i.alias for i in left), query.inputs[k].alias, left_peak + right_peak, more))
    return tuple(steps), ""


def _peak(block: Block, query: Query, rows: Mapping[str, pa.Table], times: Mapping[str, Ints]) -> tuple[int, bool]:
    """The most results of a block that live at once; and whether counting ended early."""
    lives = _Lives()
    _feed(replace(query, block=block), rows, times, lives)
    return lives.peak(), lives.full


def _feed(query: Query, rows: Mapping[str, pa.Table], times: Mapping[str, Ints], lives: _Lives) -> None:
    own = {i.alias for i in query.streams}
    engine = _engine(query, rows, "written", deltas=lives)
    for batch in _batches({a: t for a, t in rows.items() if a in own}, {a: t for a, t in times.items() if a in own}):
        engine.take_batch(batch, newest=None, into=_drop)
        engine.advance(into=_drop)
        if lives.full:
            return
    engine.close(into=_drop)


def _first(block: Block, count: int) -> Block:
    """The join of a block's first inputs."""
    return _part(block, tuple(range(count)))


def _only(block: Block, number: int) -> Block:
    return _part(block, (number,))


def _part(block: Block, numbers: Sequence[int]) -> Block:
    inputs = tuple(block.inputs[n] for n in numbers)
    names = {i.alias for i in inputs}
    classes = [replace(c, columns=tuple(x for x in c.columns if x.input in names)) for c in block.keys]
    keys = tuple(c for c in classes if len({x.input for x in c.columns}) > 1)
    filters = tuple(f for f in block.filters if f.input in names)
    residuals = tuple(r for r in block.residuals if set(r.inputs) <= names)
    needs = [c for k in block.keys for c in k.columns if c.input in names]
    first = needs[0] if needs else next(c for o in block.output for c in o.needs if c.input in names)
    return Block(inputs, keys, filters, residuals, (OutputColumn("one", str(first), first, (first,)),), cross=True)


def _keyed(block: Block, number: int) -> bool:
    """Whether an equality joins an input with those before it."""
    before, own = {i.alias for i in block.inputs[:number]}, block.inputs[number].alias
    return any({c.input for c in k.columns} & before and own in {c.input for c in k.columns} for k in block.keys)


@dataclass
class _Lives:
    """Takes deltas and remembers when they live."""

    starts: list[Ints] = field(default_factory=list)
    ends: list[Ints] = field(default_factory=list)
    count: int = 0

    @property
    def full(self) -> bool:
        return self.count > COUNTED

    def opened(self, deltas: Deltas) -> None:
        self.starts.append(np.array(deltas.start))
        self.ends.append(np.array(deltas.end))
        self.count += len(deltas.start)

    def closed(self, closings: Closings) -> None:
        """Windows of time end when they begin to: nothing follows."""

    def peak(self) -> int:
        """The most that live at one instant."""
        if not self.count:
            return 0
        starts, ends = np.concatenate(self.starts), np.concatenate(self.ends)
        ends = ends[ends < FOREVER]
        at = np.concatenate([ends, starts])
        change = np.concatenate([np.full(len(ends), -1), np.ones(len(starts), np.int64)])
        return int(np.cumsum(change[np.argsort(at, kind="stable")]).max())


def times_of(column: pa.ChunkedArray) -> Ints:
    """A stream's times as numbers to cut by."""
    plain = column if pa.types.is_integer(column.type) else pc.cast(column, pa.timestamp("us"), safe=False)
    return np.asarray(plain.cast(pa.int64()).to_numpy())
