"""The board: where the reports of all tasks meet on the driver.

Streaming queries report through a StreamingQueryListener, batch queries through an Observation; both are plain
DataFrame APIs and work the same over Connect. The listener parses a few small JSON texts per batch and adds them up.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pyspark.sql import Observation, SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from thalweg.contract import learned
from thalweg.errors import DefinitionError, did_you_mean
from thalweg.plan import Event, Reason
from thalweg.spark.asked import Asked
from thalweg.spark.compat import texts_of
from thalweg.spark.control import Control
from thalweg.spark.floods import BEGAN
from thalweg.spark.history import History, Told
from thalweg.spark.refresh import FOLDER, Refresher

log = logging.getLogger("thalweg")
BATCHES = 10_000
"""Micro-batches whose Spark timings we keep: a few numbers each."""
JOBS = 64
"""Most batch jobs to wait for at once: a DataFrame that never runs must not stay forever."""
METRIC = "thalweg:"


@dataclass
class Entry:
    """One named query: its definition, and the reports of its tasks."""

    asked: Asked
    control: Control
    history: History = field(default_factory=History)
    progress: dict[int, dict[str, int]] = field(default_factory=dict)
    """Milliseconds by micro-batch, as `milliseconds` tells them."""
    runs: set[str] = field(default_factory=set)
    """Runs of streaming queries that reported under this name."""
    refresher: Refresher | None = None
    """Reads the tables again that ask for it."""
    task: Any = None
    """The cells' task of a join with state."""
    known: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """What tasks learned, by input: the records that rest on most rows, for workers that know less."""
    waiting: deque[_Waiting] = field(default_factory=lambda: deque(maxlen=JOBS))
    lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def name(self) -> str:
        return self.asked.name

    def add(self, texts: list[str]) -> None:
        with self.lock:
            heard = self.history.heard
            fresh = self.history.add(texts)
            floods = [t for t in self.history.events if t.heard > heard and t.event.kind == BEGAN] if texts else []
        for told in floods:
            log.warning("query '%s', batch %s: %s", self.name, told.batch, told.event.why)
        for name, record in [pair for r in fresh for pair in r.learned.items()]:
            self.known[name] = learned.fuller(self.known.get(name), record)
        if any(r.learned for r in fresh):
            self.control.learn(self.known)

    def reports_from(self, run: str, started: set[str]) -> None:
        """Two runs under one name are told once: their statistics mix."""
        if run in self.runs:
            return
        if self.runs & started:
            log.warning(
                "two running queries report as '%s': their statistics mix; give each a name of its own", self.name
            )
            why = Reason("two running queries have this name: their statistics mix")
            self.decided(Event("board", "one name twice", 0, 0, why))
        self.runs.add(run)

    def heard(self, batch: int, milliseconds: Mapping[str, int]) -> None:
        with self.lock:
            self.progress[batch] = dict(milliseconds)
            while len(self.progress) > BATCHES:
                del self.progress[next(iter(self.progress))]

    def decided(self, event: Event) -> None:
        """A driver event: freeze or thaw."""
        with self.lock:
            self.history.tell(Told(None, None, event))

    def collect(self, seconds: float = 2.0) -> None:
        """Collect the observations of finished batch jobs; others keep waiting."""
        for wait in list(self.waiting):
            texts = wait.texts(seconds)
            if texts is not None:
                self.waiting.remove(wait)
                self.add(texts)


class _Waiting:
    """A batch job's Observation. Asking blocks until the job has run, so a separate thread asks."""

    def __init__(self, observation: Observation) -> None:
        self._observation = observation
        self._texts: list[str] | None = None
        self._thread: threading.Thread | None = None

    def texts(self, seconds: float) -> list[str] | None:
        if self._texts is None and (self._thread is None or not self._thread.is_alive()):
            self._thread = threading.Thread(target=self._ask, daemon=True)
            self._thread.start()
        if self._thread is not None:
            self._thread.join(seconds)
        return self._texts

    def _ask(self) -> None:
        try:
            self._texts = texts_of(self._observation.get.get("stats"))
        except Exception:
            # Connect raises while the job has not run; classic when the session is gone. Either way: nothing yet.
            self._texts = None


class _Listener(StreamingQueryListener):
    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        with board.runs:
            board.started.add(str(event.runId))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        with board.runs:
            board.started.discard(str(event.runId))
            board.runs.notify_all()
        for entry in list(board.entries.values()):
            if entry.refresher is not None:
                entry.refresher.ended(str(event.runId))

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        heard: dict[str, Entry] = {}
        for metric, row in event.progress.observedMetrics.items():
            entry = board.reporting(metric)
            if entry is not None:
                entry.reports_from(str(event.progress.runId), board.started)
                entry.add(list(row["stats"] or []))
                entry.heard(event.progress.batchId, milliseconds(event.progress))
                heard[entry.name] = entry
        for entry in heard.values():
            if entry.refresher is not None:
                entry.refresher.heard(str(event.progress.runId), *rows_of(event.progress))


def milliseconds(progress: StreamingQueryProgress) -> dict[str, int]:
    """Spark's own count of a batch, and beside it when the trigger began and what a task's state store took to commit."""
    found = dict(progress.durationMs)
    found["began"] = int(datetime.fromisoformat(progress.timestamp.replace("Z", "+00:00")).timestamp() * 1000)
    for operator in progress.stateOperators:
        tasks = max(operator.numShufflePartitions or 1, 1)
        found["stateCommit"] = found.get("stateCommit", 0) + round((operator.commitTimeMs or 0) / tasks)
    return found


def rows_of(progress: StreamingQueryProgress) -> tuple[int, int]:
    """Rows of streams in a batch, and published versions of tables. Over Connect Spark does not count: one of each."""
    rows = taken = 0
    for source in progress.sources:
        came = 1 if source.numInputRows is None else source.numInputRows
        if FOLDER in (source.description or ""):
            taken += came
        else:
            rows += came
    return rows, taken


class Board:
    """All named queries of this process."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.started: set[str] = set()
        """Runs of streaming queries that have not ended yet; guarded by `runs`."""
        self.runs = threading.Condition()
        self._listening: list[SparkSession] = []
        self._lock = threading.Lock()

    def register(self, entry: Entry) -> Entry:
        """Put a query on the board. The same query again goes on where it was: a batch query inside foreachBatch, or
        filters, whose counts belong to no checkpoint."""
        with self._lock:
            old = self.entries.get(entry.name)
            lasting = not (entry.asked.is_join and entry.asked.streaming)
            if old is not None and lasting and old.asked == entry.asked:
                return old
            self.entries[entry.name] = entry
            return entry

    def refuse_running(self, name: str) -> None:
        """Raise if a streaming query of this name is running: their statistics and orders would mix."""
        old = self.entries.get(name)
        if old is not None and old.runs & (self._active() or set()):
            raise DefinitionError(
                f"a query named '{name}' is running", hint="give this one another name=, or stop the other first"
            )

    def reporting(self, metric: str) -> Entry | None:
        """The query that an observed metric belongs to: a filter's name, or a join's name and stage."""
        if not metric.startswith(METRIC):
            return None
        name = metric.removeprefix(METRIC)
        return self.entries.get(name) or self.entries.get(name.rpartition(":")[0])

    def listen(self, spark: SparkSession) -> None:
        with self._lock:
            if not any(s is spark for s in self._listening):
                spark.streams.addListener(_Listener())
                self._listening.append(spark)

    def catch_up(self, seconds: float = 5.0) -> None:
        """Spark notifies listeners late: wait until they have the last reports of ended queries."""
        if not self.started:
            return
        active = self._active()
        if active is None:
            return  # no more reports will come
        with self.runs:
            self.runs.wait_for(lambda: self.started <= active, seconds)

    def _active(self) -> set[str] | None:
        """Runs that Spark knows to be going on: listeners hear of their end later. None if the session is gone."""
        try:
            return {str(q.runId) for spark in self._listening for q in spark.streams.active}
        except Exception:
            return None

    def wait_for(self, entry: Entry, observation: Observation) -> None:
        entry.waiting.append(_Waiting(observation))

    def entry(self, name: str) -> Entry:
        if name not in self.entries:
            raise DefinitionError(f"no query named '{name}'", hint=did_you_mean(name, self.entries))
        return self.entries[name]


board = Board()
