"""Figures 4.22 to 4.24: change that comes back every period, at several periods and filter costs (thesis 4.7.4).

Every period permutes the characteristics of the filters as `adaptivity.py` does once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from thalweg.lab import check
from thalweg.lab.chapter4.adaptivity import N, phases
from thalweg.lab.chapter4.contenders import (
    A_GREEDY,
    AUTO,
    CAST,
    FOLLOWING,
    INDEPENDENT,
    LOCAL_SWAPS,
    OPTIMAL,
    SWEEP,
    Contender,
    named,
    ours,
    thesis,
)
from thalweg.lab.chapter4.convergence import PAPER
from thalweg.lab.chapter4.generator import changing
from thalweg.lab.estimate import Estimate
from thalweg.lab.experiment import Claim, Experiment, Finding, Measurements, Panel, Trial, Value
from thalweg.lab.simulate import order_work


def periodic(
    period: int, c: int, contenders: Sequence[Contender], tuples: int, seed: int, span: str = ""
) -> list[dict[str, Value]]:
    """Cost per tuple of a workload whose characteristics are permuted every `period` tuples."""
    random = np.random.default_rng([seed, period])  # the same tuples for every c
    costs = [float(x) for x in np.where(random.permutation(N) < N // 2, 1, c)]
    parts = phases(max(tuples // period, 1), costs, random)
    bits = changing(parts, period, random)
    best = sum(
        order_work(bits[i * period : (i + 1) * period], p.best(costs)[0], costs) for i, p in enumerate(parts)
    ) / len(bits)  # fmt: skip
    x: dict[str, Value] = {"period": period, "c": c, "seed": seed, "span": span}
    rows: list[dict[str, Value]] = [x | {"policy": OPTIMAL, "cost": best, "useful": best, "extra": 0.0, "vs_best": 1.0}]
    for contender in contenders:
        went = contender.run(bits, costs, seed)
        useful, extra = float(went.useful.sum()) / len(bits), float(went.extra.sum()) / len(bits)
        rows.append(
            x | {"policy": contender.name, "cost": useful + extra, "useful": useful, "extra": extra,
                 "vs_best": (useful + extra) / best}
        )  # fmt: skip
    return rows


def _period_trials(quick: bool, seed: int) -> list[Trial]:
    points = (
        {25_000: 100_000, 75_000: 225_000}
        if quick
        else {25_000: 600_000, 100_000: 1_000_000, 300_000: 1_500_000, 1_000_000: 3_000_000}
    )
    seeds = 2 if quick else 8
    return [
        Trial(
            f"period {period:,}, seed {s}", periodic,
            {"period": period, "c": 10, "contenders": thesis() + ours(), "tuples": tuples, "seed": s},
        )
        for period, tuples in points.items()
        for s in range(seed, seed + seeds)
    ]  # fmt: skip


def _sweep_over_greedy(measured: Measurements, column: str, **where: Value) -> dict[str, Estimate]:
    """Sweep's cost over A-Greedy's at each x: above 1 where A-Greedy is ahead."""
    return {
        f"{column}={x:,}": measured.ratio("cost", {"policy": SWEEP}, {"policy": A_GREEDY}, **{column: x}, **where)
        for x in measured.distinct(column, **where)
    }


def _fast_change(measured: Measurements) -> Finding:
    fastest = measured.distinct("period")[0]
    return check.above(
        {
            f"{slow}/{fast} at {fastest:,}": measured.ratio("cost", {"policy": slow}, {"policy": fast}, period=fastest)
            for slow in (SWEEP, LOCAL_SWAPS)
            for fast in (A_GREEDY, INDEPENDENT)
        },
        1.0,
    )


def _diminishes(measured: Measurements) -> Finding:
    periods = measured.distinct("period")
    ratios = {}
    for period in periods:
        slow, fast = (measured.by_seed("cost", policy=p, period=period) for p in (SWEEP, A_GREEDY))
        ratios[period] = {s: slow[s] / fast[s] for s in slow}
    found = check.below({"change of Sweep/A-Greedy per step to a longer period": check.slope(ratios)}, 0.0)
    return Finding(found.verdict, f"{found.numbers}; {check.shown(_sweep_over_greedy(measured, 'period'))}")


rate_of_change = Experiment(
    name="4.22",
    title="Period of change",
    paper=PAPER,
    cast=CAST,
    section="4.7.4",
    figures=("4.22",),
    varies="period of change, 25,000 to 1,000,000 tuples",
    fixed="n = 8, four filters of cost 1 and four of cost 10, Γ = 2, group selectivities 0.2 to 0.8, p = 0.01, α = 0.9",
    trials=_period_trials,
    claims=(
        Claim("Under fast change A-Greedy and Independent clearly beat Sweep and LocalSwaps", _fast_change),
        Claim("A-Greedy's lead over Sweep shrinks as change gets slower", _diminishes),
        Claim(
            "agreedy as shipped costs less than the thesis' A-Greedy at every period",
            lambda m: check.above(
                {
                    f"A-Greedy/agreedy {t:,}": m.ratio("cost", {"policy": A_GREEDY}, {"policy": FOLLOWING}, period=t)
                    for t in m.distinct("period")
                },
                1.0,
            ),
            source="ours",
        ),
        Claim(
            "auto costs less than the thesis' A-Greedy at every period",
            lambda m: check.above(
                {
                    f"A-Greedy/auto {t:,}": m.ratio("cost", {"policy": A_GREEDY}, {"policy": AUTO}, period=t)
                    for t in m.distinct("period")
                },
                1.0,
            ),
            source="ours",
        ),
    ),
    panels=(
        Panel("total", "Figure 4.22: work against period of change", "period", "cost", "tuples between changes",
              "units of work per tuple", logx=True),
        Panel("ratio", "The same against the best order of every phase", "period", "vs_best", "tuples between changes",
              "work / best", logx=True),
    ),
    notes=("The thesis plots total time for a fixed workload; here it is work per tuple, so that streams of "
           "different lengths can be compared. Each has at least three phases.",),
)  # fmt: skip


def _at_period_trials(quick: bool, seed: int) -> list[Trial]:
    points = {40_000: 120_000, 120_000: 240_000} if quick else {100_000: 1_000_000, 1_000_000: 3_000_000}
    seeds = 2 if quick else 6
    contenders = named(thesis(), A_GREEDY, SWEEP) + named(ours(), FOLLOWING)
    return [
        Trial(
            f"period {period:,}, c = {c}, seed {s}", periodic,
            {"period": period, "c": c, "contenders": contenders, "tuples": tuples, "seed": s, "span": span},
        )
        for span, (period, tuples) in zip(("short", "long"), points.items(), strict=True)
        for c in ((5, 50) if quick else (5, 10, 50))
        for s in range(seed, seed + seeds)
    ]  # fmt: skip


def _lead_grows(measured: Measurements, span: str, rises: bool) -> Finding:
    ratios = {}
    for c in measured.distinct("c"):
        slow, fast = (measured.by_seed("cost", policy=p, span=span, c=c) for p in (SWEEP, A_GREEDY))
        ratios[c] = {s: slow[s] / fast[s] for s in slow}
    change = {"change of Sweep/A-Greedy per step of c": check.slope(ratios)}
    return check.above(change, 0.0) if rises else check.below(change, 0.0)


at_two_periods = Experiment(
    name="4.23-4.24",
    title="Filter cost at a short and a long period",
    paper=PAPER,
    cast=CAST,
    section="4.7.4",
    figures=("4.23", "4.24"),
    varies="cost c of four filters, 5 to 50, at periods of 100,000 and 1,000,000 tuples (quick: 40,000 and 120,000)",
    fixed="n = 8, Γ = 2, group selectivities 0.2 to 0.8, p = 0.01, α = 0.9",
    trials=_at_period_trials,
    claims=(
        Claim(
            "At the short period A-Greedy is cheaper than Sweep at every cost",
            lambda m: check.above(_sweep_over_greedy(m, "c", span="short"), 1.0),
        ),
        Claim("and its lead grows with the cost", lambda m: _lead_grows(m, "short", rises=True)),
        Claim(
            "At the long period Sweep is cheaper than A-Greedy at every cost",
            lambda m: check.below(_sweep_over_greedy(m, "c", span="long"), 1.0),
        ),
        Claim("and Sweep's standing improves with the cost", lambda m: _lead_grows(m, "long", rises=False)),
    ),
    panels=(
        Panel("short", "Figure 4.23: the short period", "c", "vs_best", "cost c of the expensive filters", "work / best",
              where={"span": "short"}),
        Panel("long", "Figure 4.24: the long period", "c", "vs_best", "cost c of the expensive filters", "work / best",
              where={"span": "long"}),
    ),
    notes=("The thesis plots time; work over that of the best order of every phase shows the same order.",),
)  # fmt: skip
