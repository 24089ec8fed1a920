"""Figure 5.21 and table 5.2: MJoin, best tree, prefix-invariant and globally-consistent caches at eight points (5.8.4)."""

from __future__ import annotations

from thalweg.lab import check
from thalweg.lab.chapter5.contenders import (
    CAST,
    DELETIONS,
    LIVES,
    MODES,
    PAPER,
    G,
    M,
    P,
    Row,
    X,
    again,
    found,
    measured,
    relatives,
)
from thalweg.lab.chapter5.streams import POINTS, four
from thalweg.lab.estimate import Estimate
from thalweg.lab.experiment import Claim, Experiment, Measurements, Panel, Trial

WINDOW = 200
"""Rows: about one match for each probe."""


def compared(point: str, rows: int, searched: int, seeds: list[int]) -> list[Row]:
    """Plans are chosen on the first seed's elements, and run on those of all seeds."""
    drawn = {seed: four(point, rows, WINDOW, seed) for seed in seeds}
    out: list[Row] = []
    for mode, deletions in MODES.items():
        plans = found(drawn[seeds[0]], searched, deletions=deletions)
        for seed, streams in drawn.items():
            begun = {name: again(plan) for name, plan in plans.items()}
            out += measured(streams, begun, {"point": point, "mode": mode, "seed": seed})
    return out


def _trials(quick: bool, seed: int) -> list[Trial]:
    rows, searched, seeds = (1_000, 500, 2) if quick else (3_000, 2_000, 10)
    return [
        Trial(point, compared, {"point": point, "rows": rows, "searched": searched, "seeds": list(range(seed, seed + seeds))})
        for point in POINTS
    ]  # fmt: skip


def _at(
    m: Measurements, over: str, under: str, *points: str, column: str = "work", mode: str = DELETIONS
) -> dict[str, Estimate]:
    every = relatives(m, over, under, "point", column, mode=mode)
    return {f"{over}/{under}, {p}": every[f"point {p}"] for p in points or POINTS}


CHANGING = ("D1", "D1b", "D2", "D2b", "D3")
OVERLAPPING = tuple(p for p in POINTS if p != "D7")

experiment = Experiment(
    name="5.21",
    title="MJoins, trees and caches at eight points",
    paper=PAPER,
    section="5.8.4",
    figures=("5.21", "table5.2"),
    varies="rates of four streams and how many of their values they share (table 5.2)",
    fixed=f"4 streams on one key, windows of {WINDOW} rows, exhaustive search, 6 candidates for G",
    trials=_trials,
    cast=CAST,
    claims=(
        Claim("X does less work than M, at all points where the streams share values.",
              lambda m: check.below(_at(m, X, M, *OVERLAPPING), 1.0)),
        Claim("G does less work than M, at all points where the streams share values.",
              lambda m: check.below(_at(m, G, M, *OVERLAPPING), 1.0)),
        Claim("P does much less work than M at most points: here at D5, by a tenth or more.",
              lambda m: check.below(_at(m, P, M, "D5"), 0.9)),
        Claim("X does less work than P at D1, D2 and D3.", lambda m: check.below(_at(m, X, P, *CHANGING), 1.0)),
        Claim("G repairs that: it does less work than P at D1 and D2.",
              lambda m: check.below(_at(m, G, P, "D1", "D1b", "D2", "D2b"), 1.0)),
        Claim("G is almost always as good as X: here at most a tenth more work.", lambda m: check.below(_at(m, G, X), 1.1)),
        Claim("G does less work than X at D2, which an extra result of three streams makes possible.",
              lambda m: check.below(_at(m, G, X, "D2"), 1.0)),
        Claim("G does less work than X at D3, D4 and D7, too.", lambda m: check.below(_at(m, G, X, "D3", "D4", "D7"), 1.0)),
        Claim("X takes less time than M where the streams share values.",
              lambda m: check.below(_at(m, X, M, *OVERLAPPING, column="microseconds"), 1.0)),
        Claim("P and G take less time than M where the streams share values.",
              lambda m: check.below(_at(m, P, M, *OVERLAPPING, column="microseconds")
                                    | _at(m, G, M, *OVERLAPPING, column="microseconds"), 1.0)),
        Claim("Where rows that leave are not joined again, trees gain less: X/M is higher at all points that share values.",
              lambda m: check.above({p: m.difference("relative work", {"mode": LIVES}, {"mode": DELETIONS}, policy=X, point=p)
                                     for p in OVERLAPPING}, 0.0), "ours"),
    ),
    panels=(
        Panel("work", "Figure 5.21: work, MJoin = 1", "point", "relative work", "", "times the MJoin's", kind="bars",
              where={"mode": DELETIONS}),
        Panel("time", "Figure 5.21: processor time, MJoin = 1", "point", "relative microseconds", "", "times the MJoin's",
              kind="bars", where={"mode": DELETIONS}),
        Panel("lives", "Rows that leave are not joined: work, MJoin = 1", "point", "relative work", "", "times the MJoin's",
              kind="bars", where={"mode": LIVES}),
        Panel("absolute", "Work for an element", "point", "work", "", "probes, records, updates", kind="bars",
              where={"mode": DELETIONS}),
    ),
    notes=(
        "Pairwise selectivities leave the overlaps of three and four sets open. D1b and D2b overlap in all four, D1 and D2 do "
        "not. At D7 no stream shares a value with another.",
        "Plans are chosen by their work on the first seed's elements, and run on those of all seeds.",
    ),
)  # fmt: skip
