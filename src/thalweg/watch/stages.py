"""Time per stage of a batch, from Spark's own count and from the clocks of its tasks, such that the stages add up.

    source        finding new data, and waiting for the rows that packing reads
    pack          predicates of one input, placing, packing; of `tw.where`, its predicates
    shuffle       from the last packed row to the first cell at work, and cells that wait for their rows
    state load    a cell finds its engine in memory, or reads it from the state
    join          the blocks of the query
    relations     what stands above the blocks
    state commit  writing what changed, and Spark's commit of its state store
    unpack        handing results over and turning them into rows
    sink          writing and committing them
    spark         planning, Spark's logs, starting the job

A batch is attributed like this. Outside of its job Spark names the time itself. The job is cut at every moment at which
a step of a task begins or ends. If several steps are at work in a span, each gets an equal share of it: so a stage's
seconds are wall-clock time, and more cores do not make more of it. Steps that only wait for a neighbour count only if
nothing else is at work. A span without any step belongs to what comes next: before the first task to `spark`, before the
first cell to `shuffle`, later to `sink`. What Spark does not name stays out: `trigger` is more than the sum by that.
Clocks of several machines may differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from thalweg.contract.report import CELLS, TaskReport

STAGES = (
    "source", "pack", "shuffle", "state load", "join", "relations", "state commit", "unpack", "sink", "spark",
)  # fmt: skip
STEPS = {
    "source": "source",
    "filter": "pack",
    "pack": "pack",
    "receive": "shuffle",
    "load": "state load",
    "join": "join",
    "relations": "relations",
    "save": "state commit",
    "unpack": "unpack",
    "write": "sink",
}
"""The stage of each step at work. `send` waits for what takes the results, `wait` for what makes them."""
BEGAN, COMMIT = "began", "stateCommit"
"""Beside Spark's own names: when the trigger began, and how long a task's state store took to commit, in ms."""
FINDING = ("latestOffset", "getOffset", "getBatch")

Span = tuple[float, float, str]
"""From, to, step."""


def stages(milliseconds: Mapping[str, int], reports: Sequence[TaskReport]) -> dict[str, float]:
    """Seconds of wall clock by stage of one batch, from the reports of all its tasks; `trigger` is all of it."""
    spark = {k: v / 1000 for k, v in milliseconds.items()}
    trigger, running = spark.get("triggerExecution", 0.0), spark.get("addBatch", 0.0)
    found = dict.fromkeys(STAGES, 0.0)
    for name, seconds in spark.items():
        if name not in ("triggerExecution", "addBatch", BEGAN, COMMIT):
            found["source" if name in FINDING else "spark"] += seconds
    first = min(r.timing.began for r in reports)
    ended = spark[BEGAN] + trigger - spark.get("commitOffsets", 0.0) if BEGAN in spark else first + running
    spans = [span for r in reports for span in _steps(r, spark.get(COMMIT, 0.0))]
    cells = [r.timing.began for r in reports if r.stage in CELLS]
    packing = [r.timing.began for r in reports if r.stage in ("filter", "pack")]
    for began, until, steps in _cut(spans, ended - running, ended):
        at_work = [STEPS[s] for s in steps if s in STEPS]
        if not at_work:
            if steps:
                at_work = ["unpack"]
            elif until <= first:
                at_work = ["spark"]
            else:
                at_work = ["shuffle" if packing and cells and until <= max(cells) else "sink"]
        for stage in at_work:
            found[stage] += (until - began) / len(at_work)
    return {"trigger": trigger, **found}


def busy(reports: Sequence[TaskReport]) -> dict[str, float]:
    """Processor seconds of all tasks together, by stage."""
    found: dict[str, float] = {}
    for r in reports:
        for step, seconds in r.timing.processor.items():
            if step in STEPS:
                found[STEPS[step]] = found.get(STEPS[step], 0.0) + seconds
    return found


def _steps(report: TaskReport, commit: float) -> Iterator[Span]:
    """A task's steps, one after the other; those that alternate are put together, which changes no sum."""
    at = report.timing.began
    for step, seconds in report.timing.seconds.items():
        yield at, at + seconds, step
        at += seconds
    if report.stage in CELLS and commit:
        yield report.timing.ended, report.timing.ended + commit, "save"


def _cut(spans: Sequence[Span], began: float, ended: float) -> Iterator[tuple[float, float, list[str]]]:
    """The time from `began` to `ended`, in pieces, each with the steps of all tasks in it."""
    marks = {min(max(t, began), ended) for a, b, _ in spans for t in (a, b)}
    edges = sorted({began, ended, *marks})
    for a, b in pairwise(edges):
        yield a, b, [step for start, end, step in spans if start <= a and end >= b]
