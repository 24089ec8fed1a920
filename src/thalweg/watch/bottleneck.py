"""Where a batch's time goes, in words: the stage that takes most of it, what in it, and whether larger batches would help."""

from __future__ import annotations

from collections.abc import Sequence

from thalweg.watch.stages import STAGES
from thalweg.watch.view import BatchView, SpentView

MEANING = {
    "source": "finding and reading new rows",
    "pack": "predicates on one input, and packing",
    "shuffle": "moving packed rows to their cells, and starting the cells' tasks",
    "state load": "reading the state of cells back from the state store",
    "join": "probing windows and tables",
    "relations": "what stands above the joins: groups, outer joins, set operations",
    "state commit": "writing what changed in the windows",
    "unpack": "turning results into rows",
    "sink": "writing and committing results",
    "spark": "Spark's planning and logs, and starting its jobs: the same for every batch",
}
ON_ROWS = ("pack", "join", "relations", "unpack")
"""Stages whose work is on rows; the others have a cost of their own in every batch."""
LARGER = 10
"""The largest step in batch size to speak of."""


def spent(batches: Sequence[BatchView]) -> SpentView | None:
    """The mean of these batches; without the first of the query if there are others, which compiles and starts workers."""
    timed = [b for b in batches if b.seconds]
    timed = [b for b in timed if b.number > 0] or timed
    if not timed:
        return None
    mean = {s: sum(b.seconds[s] for b in timed) / len(timed) for s in ("trigger", *STAGES)}
    return SpentView(
        len(timed),
        sum(i.rows_in for b in timed for i in b.filters or b.cells) / len(timed),
        mean.pop("trigger"),
        mean,
        tuple((stage, *found) for stage in ("pack", "join") if (found := _culprit(timed, stage)) is not None),
    )


def _culprit(batches: Sequence[BatchView], stage: str) -> tuple[str, float] | None:
    """The operator that takes most of the tasks' time in a stage, with its share, if that is at least half of it.

    Operators count their own processor time and the waiting they chose (`execute/meter.py`), so that is what they are
    compared with: on a busy machine a stage's wall clock shows mostly other programs.
    """
    whole = sum(b.busy.get(stage, 0.0) for b in batches)
    taken: dict[str, float] = {}
    for i in (i for b in batches for i in (b.filters if stage == "pack" else b.cells)):
        for o in i.operators:
            taken[o.name] = taken.get(o.name, 0.0) + o.seconds
    name = max(taken, key=lambda n: taken[n], default="")
    return (name, min(taken[name] / whole, 1.0)) if name and whole and taken[name] >= whole / 2 else None


def lines(view: SpentView | None) -> list[tuple[str, str]]:
    """The bottleneck, and advice on the batch size where most of a batch is not work on its rows."""
    if view is None or not view.trigger:
        return []
    stage, seconds = max(view.stages.items(), key=lambda item: item[1])
    share = seconds / view.trigger
    why = next((f"{name} takes {part:.0%} of it" for s, name, part in view.culprits if s == stage), MEANING[stage])
    said = [("time", f"{stage} takes {share:.0%} of a batch ({seconds:.2f} of {view.trigger:.2f} s): {why}")]
    work = sum(view.stages[s] for s in ON_ROWS)
    fixed = view.trigger - work
    if view.rows and fixed > work:
        times = min(LARGER, max(round(fixed / work), 2)) if work else LARGER
        gain = times * view.trigger / (fixed + times * work)
        said.append(
            ("batch size", f"{work / view.trigger:.0%} of a batch is work on its {view.rows:,.0f} rows, the rest comes with "
             f"every batch: {times} times the rows in a batch give up to {gain:.1f} times the rows a second")
        )  # fmt: skip
    return said
