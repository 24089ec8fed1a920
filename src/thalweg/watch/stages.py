"""Time per stage of a batch, from Spark's own count and from the clocks of its tasks.

source: finding and reading new data; pack: filtering, placing, packing; shuffle: from the last packed row to the first
cell at work; cell: from the first to the last cell; sink: the rest of running the batch (unpacking what came last,
writing, collecting); spark: planning and Spark's own logs. Clocks of several machines may differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from thalweg.contract.report import TaskReport

STAGES = ("source", "pack", "shuffle", "cell", "sink", "spark")
INSIDE = ("receive", "load", "join", "save", "send")
"""What a cell's time is made of, on average over cells."""


def stages(
    milliseconds: Mapping[str, int], packs: Sequence[TaskReport], cells: Sequence[TaskReport]
) -> dict[str, float]:
    """Seconds of wall clock by stage, and what the cells' part is made of."""
    spark = {k: v / 1000 for k, v in milliseconds.items()}
    finding = spark.get("latestOffset", 0.0) + spark.get("getBatch", 0.0)
    running, trigger = spark.get("addBatch", 0.0), spark.get("triggerExecution", 0.0)
    packing = max(p.timing.ended for p in packs) - min(p.timing.began for p in packs)
    reading = sum(p.timing.seconds.get("source", 0.0) for p in packs)
    share = reading / max(reading + sum(p.timing.seconds.get("pack", 0.0) for p in packs), 1e-9)
    shuffle = min(c.timing.began for c in cells) - max(p.timing.ended for p in packs)
    joining = max(c.timing.ended for c in cells) - min(c.timing.began for c in cells)
    taken = (
        finding + packing * share, packing * (1 - share), shuffle, joining,
        max(running - packing - shuffle - joining, 0.0), max(trigger - running - finding, 0.0),
    )  # fmt: skip
    inside = {k: sum(c.timing.seconds.get(k, 0.0) for c in cells) / len(cells) for k in INSIDE}
    return {"trigger": trigger, **dict(zip(STAGES, taken, strict=True)), **inside}
