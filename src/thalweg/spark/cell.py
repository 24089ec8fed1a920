"""A cell on Spark: packed rows of one key in, packed results out, slices in the state store.

State is a map from part names (slices, waiting tuples, one record with the learned plan and all counts) to bytes; a
part is written only if it changed. Lateness is judged by the watermark that earlier batches left in the state, so a
replayed batch judges alike. A worker keeps the engine of the last batch in memory as a cache: every write of the state
carries a stamp that no other write has, and the engine is used only if the state has the stamp that it left there. So
a failed, repeated or speculative task, and a query that was started anew, falls back to the state store.
"""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from pyspark.sql import Row

from thalweg.engine.counts import since
from thalweg.engine.engine import Engine
from thalweg.errors import CheckpointError
from thalweg.language.query import Query
from thalweg.plan.shares import Shares
from thalweg.spark.control import Control
from thalweg.spark.pack import NOTHING, batch_number
from thalweg.spark.stopwatch import Stopwatch
from thalweg.state.stem import read_ipc, write_ipc

RECORD = "thalweg"
"""The part that holds what the cell itself must know: newest times, the query's fingerprint."""
CHUNK = 1 << 16
"""Rows of a result blob, about."""
MOST_SPANS, SPAN_ROWS = 1000, 500
"""Spans of a batch, at most; and tuples of one, at least, on average."""


@dataclass(frozen=True)
class CellTask:
    """What a cell runs. Tables travel with the task, cut to the columns that the query reads."""

    query: Query
    policy: str
    seed: int
    shares: Shares
    tables: Mapping[str, bytes]
    idle: Mapping[str, int]
    """Microseconds of the others' time after which a silent stream no longer holds back eviction, by alias."""
    token: str
    """Of this definition of the query: what workers keep in memory belongs to it alone."""
    control: str = ""
    """Where orders from the driver are found, and under what name."""
    key: str = ""
    index: str = "hash"
    """A layout that stays, or an index tuner by name."""

    def engine(self) -> Engine:
        tables = {alias: read_ipc(content) for alias, content in self.tables.items()}
        return Engine(
            self.query,
            policy=self.policy,
            seed=self.seed,
            tables=tables,
            output="columns",
            prefiltered=True,
            leave=True,
            index=self.index,
        )

    @property
    def fingerprint(self) -> dict[str, str]:
        """What must not change under a checkpoint, by name."""
        inputs = {
            i.alias: f"{i.source} {i.window} {i.spec.schema.to_string()} {i.spec.time}" for i in self.query.inputs
        }
        keys = "; ".join(" = ".join(map(str, k.columns)) for k in self.query.block.keys)
        return {"query text": self.query.text, "number of cells": str(self.shares.cells), "join keys": keys,
                "shares": str(self.shares.sizes)} | {f"input '{a}'": v for a, v in inputs.items()}  # fmt: skip


@dataclass
class Warm:
    """An engine and what the state store holds of it, as of the end of one batch."""

    engine: Engine
    written: dict[str, tuple[bytes, int]]
    """Digest and length of each part."""
    newest: dict[str, int]
    stamp: str = ""
    used: float = 0.0


_warm: dict[tuple[str, int], Warm] = {}


def _forget(seconds: float = 900.0) -> None:
    """Drop engines that nobody asked for in a while: their queries are over, or run in another worker."""
    now = time.monotonic()
    for owner in [o for o, w in _warm.items() if now - w.used > seconds]:
        del _warm[owner]


class Parts(Protocol):
    """The state of one cell: what Spark's MapState offers."""

    def exists(self) -> bool: ...
    def getValue(self, key: tuple[str]) -> tuple[bytes] | None: ...
    def iterator(self) -> Iterator[tuple[tuple[str], tuple[bytes]]]: ...
    def updateValue(self, key: tuple[str], value: tuple[bytes]) -> None: ...
    def removeKey(self, key: tuple[str]) -> None: ...


class Cell:
    """One cell in one batch."""

    def __init__(self, task: CellTask, parts: Parts) -> None:
        self.task = task
        self._parts = parts

    def run(self, key: int, rows: Iterable[Row]) -> Iterator[tuple[bytes | None, str | None]]:
        """Blobs of results; last, without a blob, what the board shall hear."""
        clock = Stopwatch()
        arrived = sorted(rows, key=lambda r: (r.input, r.part))
        clock.lap("receive")
        owner = (self.task.token, key)
        warm, loaded = self._open(owner)
        obey(warm.engine, self.task)
        clock.lap("load")
        results = Results()
        run_batch(warm.engine, arrived, warm.newest, self.task.idle, results)
        clock.lap("join")
        written = self._save(warm)
        clock.lap("save")
        warm.used = time.monotonic()
        _warm[owner] = warm
        _forget()
        for blob in results.blobs():
            yield blob, None
        clock.lap("send")
        told = report(
            warm.engine, key=key, loaded=loaded, written=written, results=results.count,
            state=sum(size for _, size in warm.written.values()),
            silent=silent(warm.engine, warm.newest, self.task.idle), **clock.record(),
        )  # fmt: skip
        yield None, json.dumps(told)

    def _open(self, owner: tuple[str, int]) -> tuple[Warm, str]:
        warm = _warm.pop(owner, None)
        own = self._parts.getValue((RECORD,)) if self._parts.exists() else None
        if own is None:
            return Warm(self.task.engine(), {}, {}), "new"
        kept = json.loads(bytes(own[0]))
        self._check(kept["fingerprint"])
        if warm is not None and warm.stamp == kept["stamp"]:
            return warm, "warm"
        contents = {k[0]: bytes(v[0]) for k, v in self._parts.iterator() if k[0] != RECORD}
        engine = self.task.engine()
        engine.restore(contents)
        return Warm(engine, {k: (_digest(v), len(v)) for k, v in contents.items()}, kept["newest"]), "state"

    def _check(self, was: Mapping[str, str]) -> None:
        now = self.task.fingerprint
        changed = [k for k in {**was, **now} if was.get(k) != now.get(k)]
        if changed:
            lines = [f"{k}: was {was.get(k, 'not there')}, is {now.get(k, 'not there')}" for k in changed]
            raise CheckpointError(
                f"this checkpoint belongs to another query: changed are {', '.join(changed)}",
                where="\n".join(lines), hint="restore what changed, or start from a new checkpoint folder",
            )  # fmt: skip

    def _save(self, warm: Warm) -> int:
        """Write the parts that changed and remove those that are gone; returns the bytes written."""
        parts = warm.engine.snapshot()
        written = 0
        for name, content in parts.items():
            digest = (_digest(content), len(content))
            if warm.written.get(name) != digest:
                self._parts.updateValue((name,), (content,))
                warm.written[name] = digest
                written += len(content)
        for name in [n for n in warm.written if n not in parts]:
            self._parts.removeKey((name,))
            del warm.written[name]
        warm.stamp = uuid.uuid4().hex
        kept = {"newest": warm.newest, "stamp": warm.stamp, "fingerprint": self.task.fingerprint}
        own = json.dumps(kept).encode()
        self._parts.updateValue((RECORD,), (own,))
        return written + len(own)


def obey(engine: Engine, task: CellTask) -> None:
    """Pin or release routes, as the driver last ordered. An old order or none changes cost, never results."""
    orders = Control(task.control, task.key).read().get("frozen") if task.control else None
    if orders is None:
        engine.thaw()
    else:
        engine.freeze(orders)


class Results:
    """Collects results and packs them into blobs."""

    def __init__(self) -> None:
        self._batches: list[pa.RecordBatch] = []
        self.count = 0

    def add(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            self._batches.append(batch)
            self.count += batch.num_rows

    def blobs(self) -> Iterator[bytes]:
        held: list[pa.RecordBatch] = []
        for batch in self._batches:
            held.append(batch)
            if sum(b.num_rows for b in held) >= CHUNK:
                yield write_ipc(pa.Table.from_batches(held))
                held = []
        if held:
            yield write_ipc(pa.Table.from_batches(held))


def run_batch(
    engine: Engine, arrived: list[Row], newest: dict[str, int], idle: Mapping[str, int], results: Results
) -> None:
    """Push a batch's tuples in spans of time, oldest first, so that what has expired goes before the rest comes.

    Of a span the input with the fewest tuples goes first: what comes later finds the others, and where many tuples do,
    their probe order matters and scouts can be spared.
    """
    tables: dict[str, list[pa.Table]] = {}
    for row in arrived:
        if row.newest != NOTHING:
            newest[row.input] = max(newest.get(row.input, NOTHING), row.newest)
        if row.blob is not None:
            tables.setdefault(row.input, []).append(read_ipc(row.blob))
    marks = watermarks(engine, newest, idle)
    sorted_by_time: dict[str, tuple[np.ndarray[Any, np.dtype[np.int64]], pa.Table]] = {}
    for alias, parts in tables.items():
        table = pa.concat_tables(parts).combine_chunks()
        clock = engine.feeds[alias].clock
        assert clock is not None
        times, valid = clock.read(table.column(str(clock.spec.time)))
        if valid is not None:
            times = np.where(valid, times, NOTHING)
        if len(times) > 1 and (times[1:] < times[:-1]).any():
            order = np.argsort(times, kind="stable")
            times, table = times[order], table.take(pa.array(order))
        sorted_by_time[alias] = (times, table)
    sorted_by_time = dict(sorted(sorted_by_time.items(), key=lambda item: (len(item[1][0]), item[0])))
    for until in spans(engine, [t for t, _ in sorted_by_time.values()]):
        for alias, (times, table) in sorted_by_time.items():
            end = int(np.searchsorted(times, until)) if until is not None else len(times)
            if end:
                engine.push(alias, table.slice(0, end), into=results.add)
                sorted_by_time[alias] = (times[end:], table.slice(end))
        if until is not None:
            _advance(engine, {alias: min(mark, until) for alias, mark in marks.items()}, results)
    _advance(engine, marks, results)


def spans(engine: Engine, times: list[np.ndarray[Any, np.dtype[np.int64]]]) -> Iterator[int | None]:
    """Ends of the spans into which a batch is cut: two slices' length each, longer where few tuples come, since a span
    has a cost of its own; None is the last, open end."""
    lengths = [s.stem.length for s in engine.stages if s.stem is not None and s.stem.length]
    known = [t[t > NOTHING] for t in times]
    known = [t for t in known if len(t)]
    if lengths and known and not engine.shape.ordered:
        first, last = min(int(t[0]) for t in known), max(int(t[-1]) for t in known)
        most = min(sum(len(t) for t in known) // SPAN_ROWS + 1, MOST_SPANS)
        length = max(2 * min(lengths), (last - first) // most + 1)
        yield from range(first + length, last, length)
    yield None


def watermarks(engine: Engine, newest: Mapping[str, int], idle: Mapping[str, int]) -> dict[str, int]:
    """The watermark of each stream in engine ticks: newest time less lateness, or what the idle time-out grants."""
    per_micro = 1000 if engine.sources.tick == "ns" else 1
    streams = {a: f for a, f in engine.feeds.items() if f.clock is not None}
    latest = max((newest.get(a, NOTHING) for a in streams), default=NOTHING)
    marks: dict[str, int] = {}
    for alias, feed in streams.items():
        assert feed.clock is not None
        mark = newest.get(alias, NOTHING)
        if mark != NOTHING:
            mark -= feed.clock.spec.lateness * per_micro
        if alias in idle and latest != NOTHING:
            mark = max(mark, latest - (idle[alias] + feed.clock.spec.lateness) * per_micro)
        if mark > NOTHING:
            marks[alias] = mark
    return marks


def silent(engine: Engine, newest: Mapping[str, int], idle: Mapping[str, int]) -> list[str]:
    """Streams that no longer hold back the others: those whose watermark the idle time-out has moved on."""
    own = watermarks(engine, newest, {})
    return [a for a, mark in watermarks(engine, newest, idle).items() if mark > own.get(a, NOTHING)]


def _advance(engine: Engine, marks: Mapping[str, int], results: Results) -> None:
    """Watermarks in ticks; the engine takes them as its sources count, rounded down: never too early."""
    counted = {a: m // engine.feeds[a].clock.scale for a, m in marks.items()}  # type: ignore[union-attr]
    if counted:
        engine.advance(counted, into=results.add)


def report(engine: Engine, before: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """What the board hears of one cell and batch. Where counts are not kept with the state, those since `before`: the
    board adds them up."""
    names = {s.input.alias: s.pipeline.names for s in engine.stages}
    explained, met = engine.explain(), engine.classes()
    classed = [a for a in explained if len(explained[a].routes) > 1]
    told = [a for a in classed if a not in engine.frozen or a in engine.steering.by_class]
    return {
        "stage": "cell",
        "batch": batch_number(),
        **more,
        **({"stats": engine.stats()} if before is None else {"added": since(before, engine.stats())}),
        "needed": engine.needed(),
        "routes": {a: engine.frozen.get(a, e.routes[0].route).named(names[a]) for a, e in explained.items()},
        "classes": {
            a: {
                "operators": names[a],
                "tree": explained[a].tree,
                "each": [
                    {
                        "label": r.label,
                        "share": r.share,
                        "route": list(r.route),
                        "estimate": r.estimate,
                        "met": met[a].get(r.label),
                    }
                    for r in explained[a].routes
                ],
            }
            for a in told
        },
        "indexes": {a: asdict(v) for a, v in engine.indexes().items()},
        "why": {a: "frozen" if a in engine.frozen else str(e.why) for a, e in explained.items()},
        "events": [e.record() for e in engine.events()],
    }


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()


def batch_cell(task: CellTask) -> Any:
    """The same for a batch job: all rows of a cell at once, for groupBy().applyInArrow()."""

    def run(table: pa.Table) -> pa.Table:
        clock = Stopwatch()
        arrived = [Row(**r) for r in table.to_pylist()]
        clock.lap("receive")
        engine, results = task.engine(), Results()
        streams = {a for a, f in engine.feeds.items() if f.clock is not None}
        for row in arrived:
            if row.input not in streams and row.blob is not None:
                engine.push(row.input, read_ipc(row.blob))
        ours = sorted((r for r in arrived if r.input in streams), key=lambda r: (r.input, r.part))
        run_whole(engine, ours, results)
        clock.lap("join")
        lines: list[tuple[bytes | None, str | None]] = [(blob, None) for blob in results.blobs()]
        lines.append((None, json.dumps(report(engine, {}, key=arrived[0].key, loaded="new", written=0,
                                              results=results.count, **clock.record()))))  # fmt: skip
        return pa.table({"blob": pa.array([b for b, _ in lines], pa.binary()),
                         "stats": pa.array([s for _, s in lines], pa.string())})  # fmt: skip

    return run


def run_whole(engine: Engine, arrived: list[Row], results: Results) -> None:
    """A finite input: nothing is late, and at the end everything that waits comes out."""
    newest: dict[str, int] = {}
    run_batch(engine, [Row(**(r.asDict() | {"newest": NOTHING})) for r in arrived], newest, {}, results)
    engine.close(into=results.add)
