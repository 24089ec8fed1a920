"""A cell on Spark: packed rows of one key in, packed results out, slices in the state store.

State is a map from part names (slices, waiting rows, one record with the learned plan and all counts, tables) to bytes;
a part is written only if it changed. Lateness follows the watermark that earlier batches left in the state, so a
replayed batch gives the same result. Tables come as the operator's initial state: Spark reads them in the first batch
and commits them with it, so a restart finds them unchanged. A worker caches the engine of the last batch in memory:
every write of the state has a unique stamp, and the engine is used only if the state still has the stamp it wrote. So
a failed, repeated or speculative task, and a restarted query, fall back to the state store.
"""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import Row

from thalweg.contract.report import TaskReport
from thalweg.engine.engine import Engine
from thalweg.engine.report import of_engine
from thalweg.errors import CheckpointError
from thalweg.spark.celltask import CellTask
from thalweg.spark.obey import obey
from thalweg.spark.pack import NOTHING
from thalweg.spark.shared import by_input
from thalweg.spark.stopwatch import Stopwatch
from thalweg.spark.task import batch_number
from thalweg.state.store import read_ipc, write_ipc

RECORD = "thalweg"
"""The part with the stamp of the last write and the query's fingerprint."""
TABLE = "table/"
"""Prefix of the names of table parts. They are written once and are no part of the engine's snapshot."""
CHUNK = 1 << 16
"""Approximate rows per result blob."""


@dataclass
class Warm:
    """An engine and its stored state, as of the end of one batch."""

    engine: Engine
    written: dict[str, tuple[bytes, int]]
    """Digest and length of each part."""
    stamp: str = ""
    used: float = 0.0


_warm: dict[tuple[str, int], Warm] = {}


def _forget(seconds: float = 900.0) -> None:
    """Drop engines unused for a while: their queries have ended, or run in another worker."""
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
        """Blobs of results, then the report for the board, without a blob."""
        clock = Stopwatch()
        arrived = sorted(rows, key=lambda r: (r.input, r.part))
        clock.lap("receive")
        owner = (self.task.token, key)
        warm, loaded = self._open(owner)
        events = obey(warm.engine, self.task.control, self.task.key, self.task.policy) if self.task.control else []
        clock.lap("load")
        results = Results()
        tables, newest = arrivals(arrived, self.task.shared)
        warm.engine.take_batch(tables, newest=newest, into=results.add)
        clock.lap("join")
        written = self._save(warm)
        clock.lap("save")
        warm.used = time.monotonic()
        _warm[owner] = warm
        _forget()
        for blob in results.blobs():
            yield blob, None
        clock.lap("send")
        told = TaskReport(
            "cell",
            batch_number(),
            key,
            of_engine(warm.engine),
            since_start=True,
            results=results.count,
            made=warm.engine.flow.output.count,
            events=(*warm.engine.events(), *events),
            timing=clock.timing(),
            loaded=loaded,
            written=written,
            state=sum(size for _, size in warm.written.values()),
            silent=tuple(warm.engine.sources.silent()),
        )
        yield None, json.dumps(told.record())

    def keep_table(self, row: Row) -> None:
        """Store a packed part of a table, before the first batch."""
        self._parts.updateValue((f"{TABLE}{row.input}/{row.part}",), (bytes(row.blob),))

    def _open(self, owner: tuple[str, int]) -> tuple[Warm, str]:
        warm = _warm.pop(owner, None)
        if not self._parts.exists():
            return Warm(self.task.engine(), {}), "new"
        own = self._parts.getValue((RECORD,))
        if own is not None:
            kept = json.loads(bytes(own[0]))
            self._check(kept["fingerprint"])
            if warm is not None and warm.stamp == kept["stamp"]:
                return warm, "warm"
        contents = {k[0]: bytes(v[0]) for k, v in self._parts.iterator() if k[0] != RECORD}
        tables = {name: contents.pop(name) for name in sorted(contents) if name.startswith(TABLE)}
        engine = self.task.engine(
            (name.removeprefix(TABLE).rpartition("/")[0], content) for name, content in tables.items()
        )
        if own is None:
            return Warm(engine, {}), "new"
        engine.restore(contents)
        return Warm(engine, {k: (_digest(v), len(v)) for k, v in contents.items()}), "state"

    def _check(self, was: Mapping[str, str]) -> None:
        now = self.task.fingerprint
        changed = [k for k in {**was, **now} if was.get(k) != now.get(k)]
        if changed:
            lines = [f"{k}: was {was.get(k, 'not there')}, is {now.get(k, 'not there')}" for k in changed]
            raise CheckpointError(
                f"this checkpoint belongs to another query; these differ: {', '.join(changed)}",
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
        kept = {"stamp": warm.stamp, "fingerprint": self.task.fingerprint}
        own = json.dumps(kept).encode()
        self._parts.updateValue((RECORD,), (own,))
        return written + len(own)


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


def arrivals(rows: Iterable[Row], shared: Mapping[str, Sequence[str]]) -> tuple[dict[str, pa.Table], dict[str, int]]:
    """The tables that came, by input, and the newest time of each stream, in ticks."""
    tables: dict[str, list[pa.Table]] = {}
    newest: dict[str, int] = {}
    for row in rows:
        if row.newest != NOTHING:
            for alias in shared.get(row.input, (row.input,)):
                newest[alias] = max(newest.get(alias, NOTHING), row.newest)
        if row.blob is not None:
            for alias, table in by_input(row.input, read_ipc(row.blob), shared):
                tables.setdefault(alias, []).append(table)
    return {alias: pa.concat_tables(parts) for alias, parts in tables.items()}, newest


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()


def batch_cell(task: CellTask) -> Any:
    """The same for a batch job: all rows of a cell at once, for groupBy().applyInArrow()."""

    def run(table: pa.Table) -> pa.Table:
        clock = Stopwatch()
        arrived = [Row(**r) for r in table.to_pylist()]
        clock.lap("receive")
        engine, results = task.engine(), Results()
        tables, _ = arrivals(sorted(arrived, key=lambda r: (r.input, r.part)), task.shared)
        streams = {f.name for f in engine.sources.streams}
        for alias in tables.keys() - streams:
            engine.push(alias, tables.pop(alias))
        engine.take_batch(tables, into=results.add)
        engine.close(into=results.add)
        clock.lap("join")
        lines: list[tuple[bytes | None, str | None]] = [(blob, None) for blob in results.blobs()]
        told = TaskReport(
            "cell",
            batch_number(),
            arrived[0].key,
            of_engine(engine),
            results=results.count,
            made=results.count,
            events=tuple(engine.events()),
            timing=clock.timing(),
            loaded="new",
        )
        lines.append((None, json.dumps(told.record())))
        blobs, stats = zip(*lines, strict=True)
        return pa.table({"blob": pa.array(blobs, pa.binary()), "stats": pa.array(stats, pa.string())})

    return run
