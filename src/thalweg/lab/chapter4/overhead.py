"""Figures 4.15 and 4.16: the run-time overhead of all algorithms at p = 0.05 (thesis 4.7.3), on the work clock."""

from __future__ import annotations

from thalweg.lab import check
from thalweg.lab.chapter4.contenders import A_GREEDY, CAST, LOCAL_SWAPS, OPTIMAL, SWEEP, lottery, ours, steady, thesis
from thalweg.lab.chapter4.convergence import PAPER, RATE
from thalweg.lab.chapter4.generator import Population
from thalweg.lab.estimate import Estimate
from thalweg.lab.experiment import Claim, Experiment, Finding, Measurements, Panel, Trial, Value


def _all_trials(quick: bool, seed: int) -> list[Trial]:
    seeds, tuples, settle = (3, 80_000, 60_000) if quick else (8, 340_000, 280_000)
    contenders = thesis(0.05) + ours() + lottery()
    return [
        Trial(
            f"n = {n}, seed {s}", steady,
            {"x": {"n": n}, "population": Population.of(n, 2), "costs": [1.0] * n, "contenders": contenders,
             "tuples": tuples, "settle": settle, "seed": s},
        )
        for n in ((3, 8) if quick else (3, 4, 6, 8, 10))
        for s in range(seed, seed + seeds)
    ]  # fmt: skip


def _lead(measured: Measurements, policy: str, column: str, **where: Value) -> dict[str, Estimate]:
    """A-Greedy's cost over another's at each x: above 1 where the other is faster."""
    return {
        f"{policy} {column}={x}": measured.ratio(
            "cost", {"policy": A_GREEDY}, {"policy": policy}, **{column: x}, **where
        )
        for x in measured.distinct(column, **where)
    }


def _ratios(measured: Measurements, policy: str, n: Value) -> dict[Value, float]:
    own, other = measured.by_seed("cost", policy=A_GREEDY, n=n), measured.by_seed("cost", policy=policy, n=n)
    return {seed: own[seed] / other[seed] for seed in own}


def _gap_grows(measured: Measurements) -> Finding:
    ns = measured.distinct("n")
    rises = {}
    for policy in (SWEEP, LOCAL_SWAPS):
        ratios = {n: _ratios(measured, policy, n) for n in ns}
        rises[f"A-Greedy/{policy} per step of n"] = check.slope(ratios)
    return check.above(rises, 0.0)


def _similar_orders(measured: Measurements) -> Finding:
    top = measured.distinct("n")[-1]
    useful = {
        p: measured.ratio("useful", {"policy": p}, {"policy": OPTIMAL}, n=top) for p in (A_GREEDY, SWEEP, LOCAL_SWAPS)
    }
    found = check.below(useful, 1.05)
    return Finding(found.verdict, f"useful work / Optimal at n={top}: {found.numbers}")


experiment = Experiment(
    name="4.15-4.16",
    title="All algorithms, number of filters",
    paper=PAPER,
    cast=CAST,
    section="4.7.3",
    figures=("4.15", "4.16"),
    varies="n = 3 to 10",
    fixed="p = 0.05 (Independent 0.025; ours keep their own), Γ = 2, selectivity 0.5, equal costs, α = 0.9",
    trials=_all_trials,
    claims=(
        Claim(
            "Sweep and LocalSwaps are faster than A-Greedy",
            lambda m: check.above(_lead(m, SWEEP, "n") | _lead(m, LOCAL_SWAPS, "n"), 1.0),
        ),
        Claim("Their lead grows with n", _gap_grows),
        Claim(
            "Optimal, A-Greedy, Sweep and LocalSwaps reach similar orders (here: useful work within 5 %)",
            _similar_orders,
        ),
        Claim(
            "A-Greedy's loss is overhead only: its useful work is no more than Sweep's (here: within 1 %)",
            lambda m: check.below(
                {f"n={n}": m.ratio("useful", {"policy": A_GREEDY}, {"policy": SWEEP}, n=n) for n in m.distinct("n")},
                1.01,
            ),
        ),
    ),
    panels=(
        Panel("rate", "Figure 4.15: rate of all algorithms", "n", "rate", "filters n", RATE),
        Panel("breakdown", "Figure 4.16: work per tuple, n = 8", "policy", "", "", "evaluations",
              kind="stack", parts={"useful": "tuple processing", "extra": "profiling"}, where={"n": 8}),
    ),
    notes=("The thesis has no lottery; it is the eddy's ticket scheme, which needs no profiling and finds no order.",),
)  # fmt: skip
