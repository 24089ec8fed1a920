"""A cell on Spark: packed rows of one key in, packed results out, slices in the state store.

State is a map from part names (slices, waiting rows, one record with the learned plan and all counts, tables) to bytes;
a part is written only if it changed. Lateness follows the watermark that earlier batches left in the state, so a
replayed batch gives the same result. Tables come as the operator's initial state: Spark reads them in the first batch
and commits them with it, so a restart finds them unchanged. A worker caches the engine of the last batch in memory:
every write of the state has a unique stamp, and the engine is used only if the state still has the stamp it wrote. So
a failed, repeated or speculative task, and a restarted query, fall back to the state store.
"""

from __future__ import annotations

import json
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import IO, Any

import pyarrow as pa
from pyspark.sql import Row

from thalweg.contract.report import TaskReport
from thalweg.contract.statestore import StateStore
from thalweg.engine.engine import Engine
from thalweg.engine.gate import NOTHING
from thalweg.engine.recut import gather
from thalweg.engine.report import of_engine
from thalweg.errors import CheckpointError
from thalweg.execute.sheet import PART_BYTES
from thalweg.plan import Event, Reason
from thalweg.spark.celltask import CellTask
from thalweg.spark.keys import FIRST, cell_keys
from thalweg.spark.moved import SEAL, TABLE, Moving, tables_of
from thalweg.spark.obey import obey
from thalweg.spark.packed import GONE, OUT, packed_lines
from thalweg.spark.quarantine import BAD
from thalweg.spark.quarantine import blob as blob_of
from thalweg.spark.refresh import TAKEN, versions
from thalweg.spark.seal import check_format, check_whole, digest, events, other_cut, refuse_cut, whole
from thalweg.spark.shared import by_input
from thalweg.spark.stopwatch import Stopwatch
from thalweg.spark.task import batch_number
from thalweg.state.store import read_ipc, write_ipc

CHUNK = 1 << 16
"""Approximate rows in a piece of results."""


@dataclass
class Warm:
    """An engine and its stored state, as of the end of one batch."""

    engine: Engine
    written: dict[str, tuple[bytes, int]]
    """Digest and length of each part."""
    stamp: str = ""
    events: list[Event] = field(default_factory=list)
    """What is to be told of the restart."""
    used: float = 0.0


_warm: dict[tuple[str, int], Warm] = {}


def _forget(seconds: float = 900.0) -> None:
    """Drop engines unused for a while: their queries have ended, or run in another worker."""
    now = time.monotonic()
    for owner in [o for o, w in _warm.items() if now - w.used > seconds]:
        del _warm[owner]


class Cell:
    """One cell in one batch."""

    def __init__(self, task: CellTask, parts: StateStore, commit: Callable[[], None] | None = None) -> None:
        self.task = task
        self._parts = parts
        self._commit = commit
        """Makes the changed parts count; None where Spark does that itself, once the task has ended."""

    def run(self, key: int, rows: Iterable[Row]) -> Iterator[tuple[Any, ...]]:
        """Blobs of results, then the report for the board, without a blob; or lines for the cells above."""
        taken = self.take(key, rows)
        if taken is None:
            return
        if self.task.onward is not None:
            batches, passed = taken.results.batches, taken.passed
            yield from self.task.onward.lines(key, batches, passed, taken.bad, taken.report())
            return
        for blob in (*taken.bad, *map(write_ipc, taken.results.tables())):
            yield blob, None
        taken.clock.lap("send")
        yield None, taken.report()

    def take(self, key: int, rows: Iterable[Row]) -> Taken | None:
        """Take a batch, up to its state being written; None if the cell is no more."""
        clock = Stopwatch()
        arrived = sorted(rows, key=lambda r: (r.input, r.part))
        if arrived and arrived[0].input == GONE:
            self._drop()
            return None
        clock.lap("receive")
        owner = (self.task.token, key)
        arrived, renewed = versions(arrived, self.task.tables)
        news = self._renew(owner, renewed)
        warm, loaded = self._open(owner)
        told, warm.events = [*warm.events, *news], []
        if self.task.control:
            told += obey(warm.engine, self.task.control, self.task.key, self.task.policy)
        clock.lap("load")
        results = Results(whole=self.task.onward is not None)
        bad = [bytes(r.blob) for r in arrived if r.input == BAD]
        tables, newest = arrivals([r for r in arrived if r.input != BAD], self.task.shared)
        above = warm.engine.seconds_above
        # Rows of an only stream wait for nobody, so none of them is late, as where tables are only looked up.
        marks = None if self.task.alone else newest
        warm.engine.take_batch(tables, newest=marks, into=results.add)
        clock.lap("join")
        clock.part("relations", "join", warm.engine.seconds_above - above)
        written = self._save(warm)
        if self._commit is not None:
            self._commit()
        clock.lap("save")
        warm.used = time.monotonic()
        _warm[owner] = warm
        _forget()
        bad += set_aside(warm.engine)
        final = self.task.onward is None
        report = TaskReport(
            self.task.stage,
            batch_number(),
            key,
            of_engine(warm.engine),
            since_start=True,
            results=results.count if final else 0,
            made=warm.engine.count if final else 0,
            events=(*warm.engine.events(), *told),
            loaded=loaded,
            written=written,
            state=sum(size for _, size in warm.written.values()),
            silent=tuple(warm.engine.silent()),
        )
        return Taken(results, bad, warm.engine.passed, clock, report)

    def keep_table(self, row: Row) -> None:
        """Store a packed part of a table, before the first batch."""
        self._parts.updateValue((f"{TABLE}{row.input}/{row.part}",), (bytes(row.blob),))

    def _renew(self, owner: tuple[str, int], renewed: Mapping[str, tuple[int, list[Row]]]) -> list[Event]:
        """Put new versions of tables in place of the old, in the state: the engine is made again from there. The first one
        of a cell in files comes here too, without a number."""
        told = []
        begun = self._parts.getValue((SEAL,)) is not None if self._parts.exists() else False
        for name, (version, rows) in sorted(renewed.items()):
            if version == NOTHING and (begun or self.task.move is not None):
                continue  # the first version counts once, though Spark reads its lines again from a copied folder
            own = f"{TABLE}{name}/"
            for part in (
                [k[0] for k, _ in self._parts.iterator() if k[0].startswith(own)] if self._parts.exists() else []
            ):
                self._parts.removeKey((part,))
            # By position: a task that packs several partitions gives their lines the same number.
            for number, blob in enumerate(bytes(row.blob) for row in rows if row.blob is not None):
                part = str(number) if version == NOTHING else f"{version}.{number}"
                self._parts.updateValue((f"{own}{part}",), (blob,))
            _warm.pop(owner, None)
            if owner[1] == FIRST and version != NOTHING:
                why = Reason.of(
                    "version {version} of '{table}' is in force from this batch on", version=version, table=name
                )
                told.append(Event("tables", TAKEN, version, 0, why))
        return told

    def _open(self, owner: tuple[str, int]) -> tuple[Warm, str]:
        warm = _warm.pop(owner, None)
        own = self._parts.getValue((SEAL,)) if self._parts.exists() else None
        kept = None if own is None else json.loads(bytes(own[0]))
        if warm is not None and kept is not None and warm.stamp == kept["stamp"]:
            return warm, "warm"
        if kept is not None:
            check_format(kept)
        if self.task.move is not None and (kept is None or other_cut(kept, self.task.seal)):
            return self._move_in(self.task.move, owner[1]), "moved"
        if kept is not None and other_cut(kept, self.task.seal):
            raise refuse_cut(kept, self.task.seal)
        contents = (
            {k[0]: bytes(v[0]) for k, v in self._parts.iterator() if k[0] != SEAL} if self._parts.exists() else {}
        )
        written = {k: (digest(v), len(v)) for k, v in contents.items() if not k.startswith(TABLE)}
        engine = self._engine(contents)
        if kept is None:
            return Warm(engine, {}), "new"
        check_whole(kept, {name: own for name, (own, _) in written.items()})
        engine.restore(contents)
        count_on(engine, kept.get("failed", 0))
        told = events(kept, self.task.seal) if owner[1] == FIRST and not self.task.above else []
        return Warm(engine, written, events=told), "state"

    def _engine(self, contents: dict[str, bytes]) -> Engine:
        """An engine with the tables among a cell's contents, which are taken out."""
        before = [name for name in contents if name.startswith(TABLE)]
        tables = tables_of(contents, self.task.query) if before else {}
        for name in set(before) - set(tables):  # its table has another alias by now
            self._parts.removeKey((name,))
        for name in set(tables) - set(before):
            self._parts.updateValue((name,), (tables[name],))
        return self.task.engine((n.removeprefix(TABLE).rpartition("/")[0], content) for n, content in tables.items())

    def _drop(self) -> None:
        for name in [k[0] for k, _ in self._parts.iterator()] if self._parts.exists() else []:
            self._parts.removeKey((name,))

    def _move_in(self, move: Moving, key: int) -> Warm:
        """Take up the rows that cells of an old cut had for this one, in place of what is there."""
        if batch_number() not in (move.batch, None):
            raise CheckpointError(
                f"the state was to move in batch {move.batch}, and this is batch {batch_number()}: that batch was already "
                "written by a driver that was killed, or by another one",
                hint="define the query again and start it: its state moves then",
            )
        contents = move.parts(key)
        self._drop()
        tables = {name: content for name, content in contents.items() if name.startswith(TABLE)}
        for name, content in tables.items():
            self._parts.updateValue((name,), (content,))
        engine = self.task.engine((n.removeprefix(TABLE).rpartition("/")[0], content) for n, content in tables.items())
        (block,) = engine.blocks
        gather(block, cell_keys(self.task.shares.cells).index(key), contents)
        return Warm(engine, {})

    def _save(self, warm: Warm) -> int:
        """Write the parts that changed and remove those that are gone; returns the bytes written."""
        parts = warm.engine.snapshot()
        written = 0
        for name, content in parts.items():
            now = (digest(content), len(content))
            if warm.written.get(name) != now:
                self._parts.updateValue((name,), (content,))
                warm.written[name] = now
                written += len(content)
        for name in [n for n in warm.written if n not in parts]:
            self._parts.removeKey((name,))
            del warm.written[name]
        warm.stamp = uuid.uuid4().hex
        failed = sum(b.faults.count for b in warm.engine.blocks if b.faults is not None)
        parts_now = whole({name: own for name, (own, _) in warm.written.items()})
        own = json.dumps({"stamp": warm.stamp, "failed": failed, "parts": parts_now, **self.task.seal}).encode()
        self._parts.updateValue((SEAL,), (own,))
        return written + len(own)


class Results:
    """Collects results and hands them on in pieces. Those of many bytes wait on disk: a cell hands its results on only
    once its state is written, and they may be larger than memory."""

    def __init__(self, whole: bool = False) -> None:
        self.batches: list[pa.RecordBatch] = []
        """Those in memory: all of them, if they are wanted `whole`."""
        self.count = 0
        self._whole = whole
        self._bytes = 0
        self._sizes: list[int] = []
        self._file: IO[bytes] | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        self.batches.append(batch)
        self.count += batch.num_rows
        self._bytes += batch.nbytes
        if self._bytes >= PART_BYTES and not self._whole:
            self._put_aside()

    def _put_aside(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115, closed in tables()
        for table in self._pieces():
            blob = write_ipc(table)
            self._file.write(blob)
            self._sizes.append(len(blob))
        self.batches, self._bytes = [], 0

    def tables(self) -> Iterator[pa.Table]:
        if self._file is not None:
            self._file.seek(0)
            for size in self._sizes:
                yield read_ipc(self._file.read(size))
            self._file.close()
        yield from self._pieces()

    def _pieces(self) -> Iterator[pa.Table]:
        held: list[pa.RecordBatch] = []
        for batch in self.batches:
            held.append(batch)
            if sum(b.num_rows for b in held) >= CHUNK:
                yield pa.Table.from_batches(held)
                held = []
        if held:
            yield pa.Table.from_batches(held)


@dataclass
class Taken:
    """What a batch of a cell leaves behind besides its state."""

    results: Results
    bad: list[bytes]
    """Blobs of rows that were set aside."""
    passed: int
    """How far in time the cell has come."""
    clock: Stopwatch
    untimed: TaskReport

    def report(self) -> str:
        """For the board, with the time up to now."""
        return json.dumps(replace(self.untimed, timing=self.clock.timing()).record())


def count_on(engine: Engine, failed: int) -> None:
    """Go on counting what was set aside where an earlier engine of the cell stopped."""
    first = engine.blocks[0].faults if engine.blocks else None
    if first is not None and failed:
        first.go_on(failed)


def set_aside(engine: Engine) -> list[bytes]:
    """What the engine set aside in this batch, as a blob, if there is anything."""
    found = [f for block in engine.blocks if block.faults is not None for f in block.faults.take()]
    return [blob_of(found)] if found else []


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


def batch_cell(task: CellTask) -> Any:
    """The same for a batch job: all rows of a cell at once, for groupBy().applyInArrow()."""

    def run(table: pa.Table) -> pa.Table:
        clock = Stopwatch()
        arrived = [Row(**r) for r in table.to_pylist()]
        clock.lap("receive")
        engine, results = task.engine(), Results(whole=task.onward is not None)
        bad = [bytes(r.blob) for r in arrived if r.input == BAD]
        sent = [r for r in arrived if r.input != BAD]
        tables, _ = arrivals(sorted(sent, key=lambda r: (r.input, r.part)), task.shared)
        streams = set(engine.streams)
        for alias in sorted(tables.keys() - streams):
            engine.push(alias, tables.pop(alias))
        engine.take_batch(tables, into=results.add)
        engine.close(into=results.add)
        clock.lap("join")
        bad += set_aside(engine)
        made = results.count if task.onward is None else 0
        report = TaskReport(
            task.stage,
            batch_number(),
            arrived[0].key,
            of_engine(engine),
            results=made,
            made=made,
            events=tuple(engine.events()),
            timing=clock.timing(),
            loaded="new",
        )
        told = json.dumps(report.record())
        if task.onward is not None:
            lines = task.onward.lines(arrived[0].key, results.batches, engine.passed, bad, told)
            return pa.Table.from_batches([packed_lines([line]) for line in lines])
        # A batch for each blob: together they may have more bytes than one Arrow array holds.
        blobs = [packed_lines([(blob, None)], OUT) for blob in (*bad, *map(write_ipc, results.tables()))]
        return pa.Table.from_batches([*blobs, packed_lines([(None, told)], OUT)])

    return run
