"""Queries as they run: a live panel on a terminal, plain lines elsewhere.

Everything shown comes from the query's view and from Spark's own progress. Each look asks only for what came since the
last one, so looking costs the driver a few milliseconds however long a query runs.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console, Group
from rich.live import Live

from thalweg.watch.handle import query as handle_of
from thalweg.watch.panel import panel
from thalweg.watch.stop import Stop
from thalweg.watch.svg import brief
from thalweg.watch.view import EventView, QueryView

LOOK = 0.5
"""Seconds between two looks."""
EVENTS = 100
"""Past decisions of a query that its panel can choose from."""

Note = Callable[[int], tuple[str, str]]
"""For a number of finished batches: words for the heading, and a last line."""


class Watcher:
    """Waits for queries and shows how they are doing."""

    def __init__(
        self, queries: Mapping[str, StreamingQuery], console: Console, *, live: bool, notes: Mapping[str, Note] | None = None
    ) -> None:  # fmt: skip
        self.queries, self.console, self.notes = dict(queries), console, dict(notes or {})
        self.live = live and console.is_terminal
        self._told: dict[str, int] = dict.fromkeys(queries, -1)
        self._cursors: dict[str, int] = dict.fromkeys(queries, 0)
        self._events: dict[str, deque[EventView]] = {name: deque(maxlen=EVENTS) for name in queries}

    def until_over(self, stop: Stop) -> bool:
        """Wait until all queries ended or one failed; True if it was a signal that ended the waiting."""
        if self.live:
            with Live(self.frame(), console=self.console, refresh_per_second=4) as view:
                asked = self._wait(stop, lambda: view.update(self.frame()))
                view.update(self.frame())
            return asked
        asked = self._wait(stop, self.lines)
        self.lines()
        return asked

    def _wait(self, stop: Stop, look: Callable[[], None]) -> bool:
        while any(q.isActive for q in self.queries.values()):
            if stop.wished:
                return True
            if any(q.exception() is not None for q in self.queries.values()):
                return False
            look()
            time.sleep(LOOK)
        return stop.wished

    def lines(self) -> None:
        """One line for each micro-batch and each change of a plan since the last look."""
        for name, query in self.queries.items():
            for event in self._view(name).events:
                if event.changed:
                    self._print(f"{name}  {event.kind}: {brief(event.after)}  ({event.why})")
            for progress in query.recentProgress:
                if progress["batchId"] > self._told[name]:
                    self._told[name] = int(progress["batchId"])
                    if progress["numInputRows"]:
                        words = [f"{name}  batch {progress['batchId']}  {_rate(progress)}", *self._note(name, progress)]
                        self._print("  ".join(w for w in words if w))

    def _view(self, name: str) -> QueryView:
        """The query as it is now, with what came since the last look."""
        view = handle_of(name).view(since=self._cursors[name])
        self._cursors[name] = view.cursor
        self._events[name].extend(view.events)
        return view

    def _note(self, name: str, progress: Any) -> tuple[str, str]:
        return self.notes[name](int(progress["batchId"]) + 1) if name in self.notes and progress else ("", "")

    def _print(self, line: str) -> None:
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def frame(self) -> Group:
        return Group(*(self._panel(name, query) for name, query in self.queries.items()))

    def _panel(self, name: str, query: StreamingQuery) -> Any:
        progress = query.lastProgress
        failed = query.exception() is not None
        words = "running" if query.isActive else "failed" if failed else "over"
        heading, note = self._note(name, progress)
        how = f"batch {progress['batchId']}   {_rate(progress)}" if progress else "waiting for the first batch"
        view = replace(self._view(name), events=tuple(self._events[name]))
        return panel(view, "   ".join(w for w in (words, how, heading) if w), note=note, failed=failed)


def _rate(progress: Any) -> str:
    took = progress["durationMs"].get("triggerExecution", 0) / 1000
    return f"{progress['numInputRows']:,} rows in {took:.1f} s, {progress['processedRowsPerSecond'] or 0:,.0f} rows/s"
