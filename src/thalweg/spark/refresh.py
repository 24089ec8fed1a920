"""Tables that are read again while a query runs: versions on their way from the driver to the cells, exact under replay.

The driver reads a table in a job of its own, writes its rows beside the checkpoint, and then publishes one line: table,
version, folder. Those lines are one more stream of the query. So Spark writes down which batch took up which version,
and a batch that is repeated takes up the same one. The task that finds the line packs the rows for their cells; a cell
puts them into its state in place of the version before. A table travels once per version, never with a task. The next
version is read only after the last one was taken up, so the files of three are enough.

A batch uses the newest version that was ready when it began. The first batch reads the table itself.
"""

from __future__ import annotations

import json
import logging
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from thalweg.errors import CheckpointError
from thalweg.plan import Event, Reason
from thalweg.spark.lookup import BLOBS_DDL, wrapper
from thalweg.spark.pack import PackTask
from thalweg.spark.settle import settle
from thalweg.state.store import read_ipc

log = logging.getLogger("thalweg")
FOLDER = "thalweg-tables"
"""Where versions lie, inside the checkpoint."""
LINES_DDL = "input string, version long, folder string"
KEPT = 3
"""Versions whose files stay: the one in force, the one before, and one that waits to be taken up."""
READ, FAILED, TAKEN = "table read", "table not read", "table renewed"
Batches = Iterator[pa.RecordBatch]
Refresh = int | Literal["batch"]


@dataclass(frozen=True)
class Renewed:
    """A table that is read again."""

    name: str
    """Of its rows."""
    columns: list[str]
    make: Callable[[], DataFrame]
    """Its rows as they are now, filtered and cut to the columns that matter."""
    every: Refresh
    """Microseconds, or "batch": after every batch with rows."""


@dataclass
class Refresher:
    """Reads the tables of one query again, in a thread, while it runs. `tell` takes events for the board."""

    spark: SparkSession
    folder: Path
    tables: Sequence[Renewed]
    tell: Callable[[Event], None]
    _run: str = ""
    _waits: bool = False
    """Whether a version was published that no batch has taken up."""
    _rows: bool = False
    """Whether rows came since the last reading."""
    _due: dict[str, float] = field(default_factory=dict)
    _last: dict[str, str] = field(default_factory=dict)
    """By table, a digest of the newest version."""
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def lines(self) -> DataFrame:
        """The published versions as a stream."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return self.spark.readStream.schema(LINES_DDL).json(str(self.folder))

    def heard(self, run: str, rows: int, taken: int) -> None:
        """A batch of a run has ended: `rows` rows of streams, `taken` lines of versions."""
        with self._changed:
            if taken:
                self._waits = False
            self._rows = self._rows or rows > 0
            if run != self._run:
                self._run = run
                self._due = {t.name: time.monotonic() + _seconds(t.every) for t in self.tables}
                threading.Thread(target=self._watch, args=(run,), name="thalweg-tables", daemon=True).start()
            self._changed.notify_all()

    def ended(self, run: str) -> None:
        with self._changed:
            if run == self._run:
                self._run = ""
                self._changed.notify_all()

    def _watch(self, run: str) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._run != run or bool(self._ready()), self._until())
                if self._run != run:
                    return
                ready = self._ready()
                if not ready:
                    continue
                self._rows = False
            for table in ready:
                self._due[table.name] = time.monotonic() + _seconds(table.every)
                self.renew(table)

    def _ready(self) -> list[Renewed]:
        if self._waits:
            return []
        now = time.monotonic()
        return [t for t in self.tables if (self._rows if t.every == "batch" else self._due[t.name] <= now)]

    def _until(self) -> float | None:
        """Seconds until a table is due; None if only news can change that."""
        if self._waits:
            return None
        times = [self._due[t.name] for t in self.tables if t.every != "batch"]
        return max(min(times) - time.monotonic(), 0.0) if times else None

    def renew(self, table: Renewed) -> bool:
        """Read a table now; publish it if it changed. A table that can't be read stays as it was."""
        version = max([0, *(number(p) for p in self.folder.glob(f"{table.name}-*.json"))]) + 1
        place = self.folder / "_versions" / f"{table.name}-{version}-{uuid.uuid4().hex[:8]}"
        try:
            rows = table.make().mapInArrow(wrapper(table.columns), BLOBS_DDL).where("blob IS NOT NULL").select("blob")
            rows.write.parquet(str(place))
            found = self.spark.read.schema("blob binary").parquet(str(place)).select(F.sha2("blob", 256)).collect()
        except Exception as error:
            why = Reason.of(
                "'{table}' could not be read again: {error}", table=table.name, error=str(error).split("\n")[0]
            )
            log.warning("%s", why)
            self.tell(Event("tables", FAILED, version, 0, why))
            return False
        digest = ",".join(sorted(str(r[0]) for r in found))
        if self._last.get(table.name) == digest:
            shutil.rmtree(place, ignore_errors=True)
            return False
        self._last[table.name] = digest
        with self._changed:
            self._waits = True
        publish(self.folder, table.name, version, place)
        self.tell(Event("tables", READ, version, 0, Reason.of("'{table}' was read again", table=table.name)))
        self._clean(table.name, version)
        return True

    def _clean(self, name: str, version: int) -> None:
        for place in (self.folder / "_versions").glob(f"{name}-*"):
            if number(place) <= version - KEPT:
                shutil.rmtree(place, ignore_errors=True)


def number(path: Path) -> int:
    """The version in the name of a file or folder.

    >>> number(Path("t-12-0a1b.json"))
    12
    """
    return int(path.stem.rsplit("-", 2)[1])


def publish(folder: Path, name: str, version: int, place: Path) -> None:
    """One line, all at once: Spark's stream of files ignores names that begin with a dot."""
    line = json.dumps({"input": name, "version": version, "folder": str(place)})
    token = place.name.rsplit("-", 1)[1]
    whole = folder / f".{name}-{version}-{token}.json"
    whole.write_text(line)
    whole.rename(folder / whole.name.removeprefix("."))


def _seconds(every: Refresh) -> float:
    return 0.0 if every == "batch" else every / 1e6


def renewer(tasks: Mapping[str, PackTask]) -> Callable[[Batches], Batches]:
    """Turns published lines into packed rows of the newest version of each table; `newest` carries the version."""

    def run(batches: Batches) -> Batches:
        newest: dict[str, tuple[int, str]] = {}
        for batch in batches:
            for row in batch.to_pylist():
                newest[row["input"]] = max(newest.get(row["input"], (0, "")), (row["version"], row["folder"]))
        for name, (version, folder) in sorted(newest.items()):
            for packed in replace(tasks[name], beats=True).run(_rows(Path(folder))):
                column = packed.schema.get_field_index("newest")
                yield packed.set_column(column, "newest", pa.array([version] * packed.num_rows, pa.int64()))
        settle()

    return run


def _rows(folder: Path) -> Batches:
    files = sorted(folder.glob("*.parquet"))
    if not files:
        raise CheckpointError(
            f"a version of a table was to be in {folder}, and it is not there",
            hint="the folder belongs to the checkpoint, and workers must see it: put it back, or start from a new checkpoint",
        )
    for file in files:
        for blobs in pq.ParquetFile(file).iter_batches(batch_size=16):
            for content in blobs.column("blob"):
                yield from read_ipc(content.as_buffer()).to_batches()


def versions(rows: Sequence[Any], tables: frozenset[str]) -> tuple[list[Any], dict[str, tuple[int, list[Any]]]]:
    """Lines that came to a cell: those of streams, and by table its newest version with its lines."""
    found: dict[str, tuple[int, list[Any]]] = {}
    rest = []
    for row in rows:
        if row.input not in tables:
            rest.append(row)
        elif row.input not in found or row.newest > found[row.input][0]:
            found[row.input] = (row.newest, [row])
        elif row.newest == found[row.input][0]:
            found[row.input][1].append(row)
    return rest, found
