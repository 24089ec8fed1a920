"""Reports of the tasks of one query: exact totals forever, single reports while there is room.

Totals grow with the number of inputs, operators and cells, never with time. The newest reports and events are kept up
to a number of bytes, so a query that runs for months needs no more memory than one that runs for an hour.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, replace

from thalweg.contract.report import CELLS, HeavyReport, InputReport, Stage, TaskReport
from thalweg.plan import Event
from thalweg.spark.floods import Floods

REPORT_BYTES = 16 << 20
"""Bytes of JSON text to keep; in memory the reports take about three times as much."""
EVENTS = 10_000
HEAVY_VALUES = 64
"""Values of a join key to keep counts of; a report names the three most frequent of its sample."""


@dataclass(frozen=True, slots=True)
class Told:
    """A decision, with the batch and the task that reported it; the driver's own have neither."""

    batch: int | None
    task: int | None
    event: Event
    heard: int = 0
    """The number of its report; a decision of the driver has its own number."""


class History:
    """Adds up reports. Not thread-safe: its entry on the board holds a lock."""

    def __init__(self) -> None:
        self.events: deque[Told] = deque(maxlen=EVENTS)
        self.kinds: Counter[str] = Counter()
        """How often each kind of decision was taken."""
        self.batches = 0
        """Micro-batches."""
        self.heard = 0
        """Number of reports and driver decisions so far."""
        self.sent: tuple[int, ...] = ()
        """Rows sent to each cell."""
        self.heavy: dict[str, HeavyReport] = {}
        self.floods = Floods()
        self._reports: deque[tuple[int, TaskReport]] = deque()
        self._bytes = 0
        self._totals: dict[tuple[Stage, str], InputReport] = {}
        self._cells: dict[tuple[Stage, int], TaskReport] = {}
        self._jobs: dict[Stage, list[TaskReport]] = {}
        self.before: dict[int, TaskReport] = {}
        """The report of each cell before the newest batch."""
        self._newest: dict[Stage, list[TaskReport]] = {}
        self._batch: int | None = None

    def add(self, texts: Iterable[str]) -> list[TaskReport]:
        """Add reports that came together: those of one stage of one micro-batch or batch job."""
        taken, added = [], []
        for text in texts:
            self.heard += 1
            told = replace(TaskReport.of(json.loads(text)), heard=self.heard)
            added += self._added(told)
            report = self._summed(told)
            if report.batch is not None and report.batch != self._batch:
                self.batches += 1
                self._batch = report.batch
            taken.append(report)
            for event in report.events:
                self.tell(Told(report.batch, report.task, event))
            self._keep(len(text), report)
        if taken:
            self._jobs[taken[0].stage] = taken
        if added:
            for event in self.floods.hear(added):
                self.tell(Told(added[0].batch, None, event))
        return taken

    def _added(self, report: TaskReport) -> list[TaskReport]:
        """What the report adds; nothing if it counts from a start that nobody here has heard of."""
        if not report.since_start or report.batch == 0:
            return [report]
        before = self._cells.get((report.stage, report.task))
        if before is None:
            return []
        return [replace(report, inputs=tuple(i.minus(before.input(i.alias)) for i in report.inputs))]

    def tell(self, told: Told) -> None:
        if told.task is None:
            self.heard += 1
        self.events.append(replace(told, heard=self.heard))
        self.kinds[told.event.kind] += 1

    def reports(self, *stages: Stage, since: int = 0) -> list[TaskReport]:
        """Reports of these stages that are still kept, after number `since`."""
        fresh = itertools.takewhile(lambda kept: kept[1].heard > since, reversed(self._reports))
        return [r for _, r in fresh if r.stage in stages][::-1]

    def total(self, stage: Stage, alias: str) -> InputReport:
        """The sum of a stage's tasks: counts over the whole life of the query, other facts from the newest report."""
        return self._totals.get((stage, alias), InputReport(alias))

    def cells(self, *stages: Stage) -> list[TaskReport]:
        """The newest report of each cell that joins, or of these stages. Its counts are totals."""
        return [report for (stage, _), report in self._cells.items() if stage in (stages or ("cell",))]

    def newest(self, stage: Stage) -> list[TaskReport]:
        """Reports of the newest micro-batch, or of the newest job."""
        return self._newest.get(stage) or self._jobs.get(stage, [])

    def _summed(self, report: TaskReport) -> TaskReport:
        """Add a report to the totals; returns it, with its totals if it is from a cell."""
        if report.stage not in CELLS:
            for i in report.inputs:
                before = self._totals.get((report.stage, i.alias))
                self._totals[report.stage, i.alias] = i if before is None else before.plus(i)
            self._add_packed(report)
            return report
        before_it = self._cells.get((report.stage, report.task))
        if before_it is not None and before_it.batch != report.batch and report.stage == "cell":
            self.before[report.task] = before_it
        if not report.since_start and before_it is not None:
            inputs = tuple(before_it.input(i.alias).plus(i) for i in report.inputs)
            report = replace(report, inputs=inputs, made=before_it.made + report.made)
        self._cells[report.stage, report.task] = report
        return report

    def _add_packed(self, report: TaskReport) -> None:
        if report.sent:
            self.sent = tuple(a + b for a, b in zip(self.sent or [0] * len(report.sent), report.sent, strict=True))
        for h in report.heavy:
            before = self.heavy.get(h.column)
            counts = Counter(dict(before.values if before is not None else ()))
            counts.update(dict(h.values))
            sampled = h.sampled + (before.sampled if before is not None else 0)
            self.heavy[h.column] = replace(h, sampled=sampled, values=tuple(counts.most_common(HEAVY_VALUES)))

    def _keep(self, size: int, report: TaskReport) -> None:
        kept = replace(report, learned={})
        self._reports.append((size, kept))
        if report.batch is not None:
            same = self._newest.setdefault(report.stage, [])
            if same and report.batch > (same[0].batch or 0):
                same.clear()
            if not same or report.batch == same[0].batch:
                same.append(kept)
        self._bytes += size
        while self._bytes > REPORT_BYTES:
            self._bytes -= self._reports.popleft()[0]
