"""Figures 5.17 and 5.18: joins of three to seven streams on one key (thesis 5.8.3)."""

from __future__ import annotations

from thalweg.lab import check
from thalweg.lab.chapter5.contenders import DELETIONS, LIVES, MODES, PAPER, M, Row, measured, relatives
from thalweg.lab.chapter5.streams import on_one_key
from thalweg.lab.elements.adaptive import AdaptiveJoin
from thalweg.lab.elements.best import Plan
from thalweg.lab.elements.mjoin import MJoin
from thalweg.lab.elements.tree import Tree, Written
from thalweg.lab.experiment import Claim, Experiment, Measurements, Panel, Trial, Value
from thalweg.optimize.caches.candidates import candidates

LEFT_DEEP, ADAPTIVE = "left-deep tree", "adaptive caches"
CAST = (M, LEFT_DEEP, ADAPTIVE)
WINDOW, REPEATS = 20, 5


def joined(n: int, learned: int, values: int, seed: int) -> list[Row]:
    """All plans visit streams without repeats first. Learning happens in the elements that are not counted, profiling goes
    on in those that are."""
    multiplicities = [1] * (n // 2) + [REPEATS] * (n - n // 2)
    streams = on_one_key(learned + values, WINDOW, multiplicities, seed, filled=learned)
    orders = {i: tuple(j for j in range(n) if j != i) for i in range(n)}
    tree: Written = 0
    for i in range(1, n):
        tree = (tree, i)
    rows: list[Row] = []
    for mode, deletions in MODES.items():
        adaptive = AdaptiveJoin(streams.join, orders, deletions=deletions, seed=seed)
        plans: dict[str, Plan] = {
            M: MJoin(streams.join, orders, deletions=deletions),
            LEFT_DEEP: Tree(streams.join, tree, deletions=deletions),
            ADAPTIVE: adaptive,
        }
        rows += measured(streams, plans, {"n": n, "mode": mode, "seed": seed})
        rows[-1]["candidates"] = len(candidates(orders, streams.join.graph))
    return rows


def _trials(quick: bool, seed: int) -> list[Trial]:
    learned, values, seeds = (600, 30, 2) if quick else (600, 60, 10)
    return [
        Trial(f"n = {n}, seed {s}", joined, {"n": n, "learned": learned, "values": values, "seed": s})
        for n in ((3, 5) if quick else (3, 4, 5, 6, 7))
        for s in range(seed, seed + seeds)
    ]


def _uses(m: Measurements) -> dict[str, Value]:
    most = max(n for n in m.distinct("n") if n <= 7)
    return {"n": most, "policy": ADAPTIVE, "mode": DELETIONS}


experiment = Experiment(
    name="5.17-5.18",
    title="Number of joins",
    paper=PAPER,
    section="5.8.3",
    figures=("5.17", "5.18"),
    varies="n = 3 to 7 streams",
    fixed=f"one key; values once in half of the streams, {REPEATS} times in the others; windows of {WINDOW} values",
    trials=_trials,
    cast=CAST,
    claims=(
        Claim("Caches keep their gain for all n, in work.",
              lambda m: check.below(relatives(m, ADAPTIVE, M, "n", mode=DELETIONS), 1.0)),
        Claim("Caches keep their gain for all n, in time.",
              lambda m: check.below(relatives(m, ADAPTIVE, M, "n", "microseconds", mode=DELETIONS), 1.0)),
        Claim("The join of seven offers 15 caches.",
              lambda m: check.exactly({"candidates": m.estimate("candidates", **_uses(m)).mean}, {"candidates": 15})),
        Claim("It uses six of them (here: five to seven).",
              lambda m: check.within({"used": m.estimate("uses", **_uses(m))}, {"used": 6.0}, 0.17)),
        Claim("Where rows that leave are not joined again, caches keep a gain for all n, in work.",
              lambda m: check.below(relatives(m, ADAPTIVE, M, "n", mode=LIVES), 1.0), "ours"),
    ),
    panels=(
        Panel("absolute", "Figure 5.17: work for an element", "n", "work", "streams n", "probes, records, updates",
              where={"mode": DELETIONS}),
        Panel("relative", "Figure 5.18: work, MJoin = 1", "n", "relative work", "streams n", "times the MJoin's",
              where={"mode": DELETIONS}),
        Panel("time", "Figure 5.18: processor time, MJoin = 1", "n", "relative microseconds", "streams n",
              "times the MJoin's", where={"mode": DELETIONS}),
        Panel("lives", "Work, MJoin = 1, rows that leave are not joined", "n", "relative work", "streams n",
              "times the MJoin's", where={"mode": LIVES}),
    ),
    notes=("The tree joins streams without repeats first; with seven streams there are 10,395 trees, too many to try.",
           "Under these orders a pipeline's candidates lie one inside the other, so each uses one at most: five for seven "
           "streams."),
)  # fmt: skip
