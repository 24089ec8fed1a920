"""The board: where the statistics and events of all tasks meet on the driver.

Streaming queries report through a StreamingQueryListener, batch queries through an Observation. The listener only
parses a few small JSON texts per batch and appends; everything else happens when somebody asks.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark import SparkContext
from pyspark.sql import Observation, SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from thalweg.engine.counts import added
from thalweg.errors import DefinitionError, did_you_mean
from thalweg.language.predicate import Predicate
from thalweg.language.query import Query
from thalweg.plan import Pipeline
from thalweg.plan.shares import Shares
from thalweg.spark.control import Control

KEEP_REPORTS = 100_000
KEEP_BATCHES = 10_000
METRIC = "thalweg:"


@dataclass
class Entry:
    """One named query: what was asked, and all that its tasks reported."""

    name: str
    policy: str
    pipeline: Pipeline
    predicates: list[Predicate]
    places: dict[str, str]
    """Where each predicate runs, and why, by name, in written order."""
    streaming: bool
    control: Control
    reports: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=KEEP_REPORTS))
    decisions: list[dict[str, Any]] = field(default_factory=list)
    """Events of the driver's own: freeze and thaw."""
    waiting: deque[_Waiting] = field(default_factory=lambda: deque(maxlen=64))
    lock: threading.Lock = field(default_factory=threading.Lock)
    times: int = 0
    """How often reports came: once for each micro-batch or batch job."""

    def add(self, texts: list[str]) -> None:
        fresh = [json.loads(t) for t in texts]
        if not fresh:
            return
        with self.lock:
            self.times += 1
            self.reports.extend(r | {"heard": self.times} for r in fresh)
        # The cell that saw most rows has learned most; its word is the prior of workers that are new.
        best = max(fresh, key=lambda r: int(r["tally"]["rows_in"]))
        if best["learned"] is not None:
            self.control.write(learned=best["learned"])

    def collect(self, seconds: float = 2.0) -> None:
        """Take in what finished batch jobs observed; jobs that have not run yet are left waiting."""
        _collect(self, seconds)


@dataclass
class JoinEntry:
    """One named join: what was asked, how it is cut, and all that its tasks reported."""

    name: str
    policy: str
    query: Query
    shares: Shares
    why: str
    kind: str
    streaming: bool
    left: list[str]
    """Predicates that Spark evaluates after the join."""
    control: Control
    partitions: int
    """Of the shuffle to the cells."""
    routed: Query
    """The query as cells see it, without what packing has done."""
    progress: dict[int, dict[str, int]] = field(default_factory=dict)
    """Spark's own milliseconds by batch, of the last `KEEP_BATCHES`."""
    decisions: list[dict[str, Any]] = field(default_factory=list)
    """Events of the driver's own: freeze and thaw."""
    reports: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=KEEP_REPORTS))
    """Counts of cells in them are totals."""
    waiting: deque[_Waiting] = field(default_factory=lambda: deque(maxlen=64))
    lock: threading.Lock = field(default_factory=threading.Lock)
    totals: dict[int, dict[str, Any]] = field(default_factory=dict)
    """By cell, where tasks tell only what they added."""

    def add(self, texts: list[str]) -> None:
        fresh = [json.loads(t) for t in texts]
        with self.lock:
            for r in fresh:
                if "added" in r:
                    r["stats"] = self.totals[r["key"]] = added(self.totals.get(r["key"], {}), r.pop("added"))
            self.reports.extend(fresh)

    def heard(self, batch: int, milliseconds: Mapping[str, int]) -> None:
        with self.lock:
            self.progress[batch] = dict(milliseconds)
            while len(self.progress) > KEEP_BATCHES:
                del self.progress[next(iter(self.progress))]

    def collect(self, seconds: float = 2.0) -> None:
        _collect(self, seconds)


class _Waiting:
    """A batch job's Observation. Asking blocks until the job has run, so a thread of its own asks."""

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
            self._texts = list(self._observation.get.get("stats") or [])
        except Exception:
            # Connect raises while the job has not run; classic when the session is gone. Either way: nothing yet.
            self._texts = None


def _collect(entry: Entry | JoinEntry, seconds: float) -> None:
    for wait in list(entry.waiting):
        texts = wait.texts(seconds)
        if texts is not None:
            entry.waiting.remove(wait)
            entry.add(texts)


class _Ear:
    """What Java calls. Progress is asked for as one JSON text: converting it object by object, as PySpark does, takes
    hundreds of calls between the two languages and a fifth of a second of both cores for each batch."""

    def __init__(self, listener: _Listener) -> None:
        self._listener = listener

    def onQueryStarted(self, event: Any) -> None:
        self._listener.onQueryStarted(QueryStartedEvent.fromJObject(event))

    def onQueryProgress(self, event: Any) -> None:
        progress = json.loads(event.progress().json())
        self._listener.heard(progress["batchId"], progress["durationMs"], progress.get("observedMetrics", {}))

    def onQueryIdle(self, event: Any) -> None:
        pass

    def onQueryTerminated(self, event: Any) -> None:
        self._listener.onQueryTerminated(QueryTerminatedEvent.fromJObject(event))

    class Java:
        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)


class _Listener(StreamingQueryListener):
    @property
    def _jlistener(self) -> Any:
        """What a classic session registers; over Connect the events come as text anyway, to `onQueryProgress`."""
        if not hasattr(self, "_java"):
            self._java = SparkContext._jvm.PythonStreamingQueryListenerWrapper(_Ear(self))  # type: ignore[union-attr]
        return self._java

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        with board.runs:
            board.started.add(str(event.runId))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        with board.runs:
            board.started.discard(str(event.runId))
            board.runs.notify_all()

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        p = event.progress
        self.heard(p.batchId, p.durationMs, p.observedMetrics)

    def heard(self, batch: int, milliseconds: Mapping[str, int], observed: Mapping[str, Any]) -> None:
        for metric, row in observed.items():
            entry = board.reporting(metric)
            if entry is not None:
                entry.add(list(row["stats"] or []))
                if isinstance(entry, JoinEntry):
                    entry.heard(batch, milliseconds)


class Board:
    """All named queries of this process."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry | JoinEntry] = {}
        self.started: set[str] = set()
        """Runs of streaming queries whose end has not been heard of; guarded by `runs`."""
        self.runs = threading.Condition()
        self._listening: list[SparkSession] = []
        self._lock = threading.Lock()

    def register(self, entry: Entry) -> Entry:
        """Put a query on the board. The same query again, as inside foreachBatch, goes on where it was."""
        with self._lock:
            old = self.entries.get(entry.name)
            if isinstance(old, Entry) and (old.pipeline, old.policy, old.streaming) == (
                entry.pipeline,
                entry.policy,
                entry.streaming,
            ):
                return old
            self.entries[entry.name] = entry
            return entry

    def register_join(self, entry: JoinEntry) -> JoinEntry:
        """Put a join on the board. The same batch query again, as inside foreachBatch, goes on where it was."""
        with self._lock:
            old = self.entries.get(entry.name)
            if isinstance(old, JoinEntry) and not (old.streaming or entry.streaming):
                same = (old.query.text, old.policy, old.shares) == (entry.query.text, entry.policy, entry.shares)
                if same:
                    return old
            self.entries[entry.name] = entry
            return entry

    def reporting(self, metric: str) -> Entry | JoinEntry | None:
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
        """Spark tells listeners late: wait until they have heard the last of queries that are over."""
        if not self.started:
            return
        try:
            active = {str(q.runId) for spark in self._listening for q in spark.streams.active}
        except Exception:
            return  # a session is gone; nothing more will come
        with self.runs:
            self.runs.wait_for(lambda: self.started <= active, seconds)

    def wait_for(self, entry: Entry | JoinEntry, observation: Observation) -> None:
        entry.waiting.append(_Waiting(observation))

    def entry(self, name: str) -> Entry | JoinEntry:
        if name not in self.entries:
            raise DefinitionError(f"no query named '{name}'", hint=did_you_mean(name, self.entries))
        return self.entries[name]


board = Board()
