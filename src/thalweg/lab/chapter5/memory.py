"""Figure 5.23: what plans make of less memory for partial results, at D8 (thesis 5.8.5)."""

from __future__ import annotations

from collections.abc import Sequence

from thalweg.lab import check
from thalweg.lab.chapter5.contenders import CAST, DELETIONS, PAPER, G, M, P, Row, X, again, found, measured, relatives
from thalweg.lab.chapter5.streams import four
from thalweg.lab.elements.join import Element
from thalweg.lab.elements.tree import Tree, sensible
from thalweg.lab.estimate import Estimate
from thalweg.lab.experiment import Claim, Experiment, Finding, Measurements, Panel, Trial, Value

WINDOW = 1_000
SHARES = (0.0, 0.25, 0.5, 1.0, 1.5)
"""Memory, as a share of what the best tree takes."""


def limited(rows: int, searched: int, seed: int) -> list[Row]:
    """M, and P and G with the caches that are best without a limit, at each limit; X where it has room."""
    streams = four("D8", rows, WINDOW, seed)
    best = found(streams, searched, deletions=True)
    tree = best[X]
    assert isinstance(tree, Tree)
    out: list[Row] = []
    trial = measured(streams, {M: best[M], X: again(tree)}, {})
    needed = int(float(next(r["bytes"] for r in trial if r["policy"] == X)))  # type: ignore[arg-type]
    least = min(_bytes(streams.elements, t) for t in (Tree(tree.join, w) for w in sensible(tree.join)))
    for share in SHARES:
        limit = int(share * needed)
        plans = {M: again(best[M])} | {n: again(best[n], limit) for n in (P, G)}
        if share >= 1:
            plans[X] = again(tree)
        for row in measured(streams, plans, {"share": share, "seed": seed}):
            out.append(row | {"least": least / needed, "needed": needed})
    return out


def _bytes(elements: Sequence[Element], tree: Tree) -> int:
    for element in elements:
        tree.take(element)
    return tree.bytes


def _trials(quick: bool, seed: int) -> list[Trial]:
    rows, searched, seeds = (500, 200, 2) if quick else (2_000, 1_000, 10)
    return [
        Trial(f"seed {s}", limited, {"rows": rows, "searched": searched, "seed": s}) for s in range(seed, seed + seeds)
    ]


def _by_share(m: Measurements, over: str, *shares: float) -> dict[str, Estimate]:
    every = relatives(m, over, M, "share")
    return {f"{over} at {s:.0%}": every[f"share {s}"] for s in shares}


def _smooth(m: Measurements) -> Finding:
    falls = {}
    for policy in (P, G):
        costs: dict[Value, dict[Value, float]] = {
            s: m.by_seed("relative work", policy=policy, share=s) for s in SHARES if s <= 1
        }
        falls[f"{policy}, for each step"] = check.slope(costs)
    return check.below(falls, 0.0)


experiment = Experiment(
    name="5.23",
    title="Less memory for partial results",
    paper=PAPER,
    section="5.8.5",
    figures=("5.23",),
    varies="memory, as a share of what the best tree takes",
    fixed=f"D8: 4 streams of equal rates on one key, windows of {WINDOW:,} rows, one match for each probe",
    trials=_trials,
    cast=CAST,
    claims=(
        Claim("Any tree needs much memory, or it can't run: the smallest takes 80 % of what the best one takes (25.6 of 32 KB).",
              lambda m: check.within({"least/best": m.estimate("least", policy=M, share=0.0)}, {"least/best": 0.8}, 0.25)),
        Claim("Plans with caches run with any memory, and do less work with more.", _smooth),
        Claim("With half of the best tree's memory, caches do less work than the MJoin.",
              lambda m: check.below(_by_share(m, P, 0.5) | _by_share(m, G, 0.5), 1.0)),
        Claim("Without memory, caches cost more than the MJoin: each row asks in vain.",
              lambda m: check.above(_by_share(m, P, 0.0), 1.0), "ours"),
    ),
    panels=(
        Panel("work", "Figure 5.23: work, MJoin = 1", "share", "relative work", "memory / best tree's", "times the MJoin's"),
        Panel("time", "Figure 5.23: processor time, MJoin = 1", "share", "relative microseconds", "memory / best tree's",
              "times the MJoin's"),
    ),
    notes=(f"With rows joined again when they leave ({DELETIONS}).",
           "Memory counts references to rows, and a key and a count for each entry of a cache."),
)  # fmt: skip
