"""Adaptivity: figures 4.19 to 4.21 (one change), 4.22 (period of change), 4.23 and 4.24 (cost at two periods); 4.7.4.

A change permutes the characteristics of the filters: filter i takes over group and selectivity of another one. Groups
have the selectivities 0.2, 0.4, 0.6 and 0.8, Γ = 2, n = 8. The true cost of every order in every phase is known, so how
far a policy is from the best is exact.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from thalweg.lab import check
from thalweg.lab.chapter4.contenders import (
    A_GREEDY,
    AUTO,
    CAST,
    FOLLOWING,
    INDEPENDENT,
    LOCAL_SWAPS,
    LOTTERY,
    OPTIMAL,
    SWEEP,
    Contender,
    lottery,
    named,
    ours,
    thesis,
)
from thalweg.lab.chapter4.convergence import PAPER
from thalweg.lab.chapter4.generator import Population, changing, spread
from thalweg.lab.estimate import Estimate
from thalweg.lab.experiment import Claim, Experiment, Finding, Measurements, Panel, Trial, Value
from thalweg.lab.simulate import Run, order_work

N = 8
STEP = 2000
"""Tuples for each point of a timeline, as in the thesis' figures."""
SETTLED = 20
"""Batches in a row that must be near the goal before a policy counts as settled."""


def population() -> Population:
    return Population.of(N, 2, spread(N // 2))


def phases(count: int, costs: Sequence[float], random: np.random.Generator, least: float = 0.0) -> list[Population]:
    """Populations with permuted characteristics; after a change the old best order costs `least` times the new one."""
    out = [population().shuffled(random)]
    while len(out) < count:
        candidate = population().shuffled(random)
        stale = candidate.cost(out[-1].best(costs)[0], costs) / candidate.best(costs)[1]
        if stale >= least:
            out.append(candidate)
    return out


def timeline(contenders: Sequence[Contender], before: int, after: int, seed: int) -> list[dict[str, Value]]:
    """One change after `before` tuples; evaluations every 2,000 tuples, and how long it took to get over the change."""
    random = np.random.default_rng([seed, 19])
    costs = [1.0] * N
    old, new = phases(2, costs, random, least=1.25)
    bits = np.concatenate([old.draw(before, random), new.draw(after, random)])
    rows = [_optimal_line(bits, before, old, new, seed)]
    for contender in contenders:
        went = contender.run(bits, costs, seed)
        each = STEP // went.batch
        line = went.evaluations[: len(went.evaluations) // each * each].reshape(-1, each).sum(axis=1)
        window = min(200_000, after)
        best = order_work(bits[before : before + window], new.best(costs)[0], costs)
        excess = went.work_between(before, before + window) / best - 1
        row: dict[str, Value] = {"policy": contender.name, "seed": seed, "excess": 100 * excess}
        if contender.policy != "lottery":  # it draws routes: no one order is in force
            ratios = _ratios(new, costs, went, before)
            row |= {
                "settled": _settle(ratios, 1.05) * went.batch, "jump": float(np.abs(np.diff(ratios)).max()),
                "order_before": float(_ratios(old, costs, went, 0, before)[-SETTLED:].mean()),
                "order_after": float(ratios[-SETTLED:].mean()),
            }  # fmt: skip
        rows.append(row | {"timeline": [float(v) for v in line]})
    return rows


def _optimal_line(
    bits: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], before: int, old: Population, new: Population, seed: int
) -> dict[str, Value]:
    costs = [1.0] * N
    line = [
        order_work(bits[s : s + STEP], (old if s < before else new).best(costs)[0], costs)
        for s in range(0, len(bits) // STEP * STEP, STEP)
    ]
    return {"policy": OPTIMAL, "seed": seed, "timeline": line}


def _ratios(
    population: Population, costs: Sequence[float], went: Run, first: int, last: int | None = None
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """True cost of the order in force against the best, for each batch from tuple `first` on."""
    orders = went.orders[first // went.batch : None if last is None else last // went.batch]
    least = population.best(costs)[1]
    known = {order: population.cost(order, costs) / least for order in set(orders)}
    return np.array([known[order] for order in orders])


def _settle(ratios: np.ndarray[tuple[int, ...], np.dtype[np.float64]], goal: float) -> int:
    """Batches until the order stays at or below the goal for a while; the whole length if it never does."""
    near = ratios <= goal
    for b in range(len(near)):
        if near[b : b + SETTLED].all():
            return b
    return len(near)


def _timeline_trials(quick: bool, seed: int) -> list[Trial]:
    seeds, before, after = (2, 100_000, 120_000) if quick else (16, 600_000, 400_000)
    contenders = thesis() + ours() + lottery()
    return [
        Trial(f"seed {s}", timeline, {"contenders": contenders, "before": before, "after": after, "seed": s})
        for s in range(seed, seed + seeds)
    ]


def _sooner(measured: Measurements, fast: str, slow: str) -> Finding:
    times = {p: measured.estimate("settled", policy=p) for p in (fast, slow)}
    later = measured.difference("settled", {"policy": slow}, {"policy": fast})
    found = check.above({f"{slow} later by": later}, 0.0)
    return Finding(found.verdict, f"tuples until settled: {check.shown(times)}; {found.numbers}")


def _worse_orders(measured: Measurements) -> Finding:
    return check.above(
        {
            f"Independent/A-Greedy {when}": measured.ratio(
                f"order_{when}", {"policy": INDEPENDENT}, {"policy": A_GREEDY}
            )
            for when in ("before", "after")
        },
        1.0,
    )


one_change = Experiment(
    name="4.19-4.21",
    title="One change",
    paper=PAPER,
    cast=CAST,
    section="4.7.4",
    figures=("4.19", "4.20", "4.21"),
    varies="time; the filters' characteristics are permuted once, at tuple 600,000 (quick: 100,000)",
    fixed="n = 8, Γ = 2, group selectivities 0.2 to 0.8, equal costs, p = 0.01 (Independent 0.005), α = 0.9",
    trials=_timeline_trials,
    claims=(
        Claim("A-Greedy gets over the change sooner than Sweep", lambda m: _sooner(m, A_GREEDY, SWEEP)),
        Claim("A-Greedy gets over the change sooner than LocalSwaps", lambda m: _sooner(m, A_GREEDY, LOCAL_SWAPS)),
        Claim(
            "LocalSwaps descends more smoothly than Sweep: its greatest jump is smaller",
            lambda m: check.above(
                {"Sweep's greatest change of cost at once, less LocalSwaps'":
                 m.difference("jump", {"policy": SWEEP}, {"policy": LOCAL_SWAPS})}, 0.0,
            ),
        ),
        Claim("Independent adapts fast too: sooner than Sweep", lambda m: _sooner(m, INDEPENDENT, SWEEP)),
        Claim("Independent's order is worse than A-Greedy's before and after", _worse_orders),
        Claim(
            "agreedy as shipped gets within 5 % of the new best sooner than the thesis' A-Greedy",
            lambda m: _sooner(m, FOLLOWING, A_GREEDY), source="ours",
        ),
        Claim(
            "auto gets within 5 % of the new best sooner than the thesis' A-Greedy",
            lambda m: _sooner(m, AUTO, A_GREEDY), source="ours",
        ),
    ),
    panels=(
        Panel("sweep", "Figure 4.19: A-Greedy and Sweep", "", "timeline", "tuples", "evaluations per 2,000 tuples",
              kind="timeline", step=STEP, only=(OPTIMAL, A_GREEDY, SWEEP)),
        Panel("localswaps", "Figure 4.20: A-Greedy and LocalSwaps", "", "timeline", "tuples",
              "evaluations per 2,000 tuples", kind="timeline", step=STEP,
              only=(OPTIMAL, A_GREEDY, LOCAL_SWAPS)),
        Panel("independent", "Figure 4.21: A-Greedy and Independent", "", "timeline", "tuples",
              "evaluations per 2,000 tuples", kind="timeline", step=STEP,
              only=(OPTIMAL, A_GREEDY, INDEPENDENT)),
        Panel("ours", "The same change: A-Greedy and what we ship", "", "timeline", "tuples",
              "evaluations per 2,000 tuples", kind="timeline", step=STEP,
              only=(OPTIMAL, A_GREEDY, FOLLOWING, AUTO, LOTTERY)),
        Panel("settled", "Tuples until the order is within 5 % of the new best", "policy", "settled", "", "tuples",
              kind="bars", series=""),
        Panel("excess", "Work over Optimal's, 200,000 tuples after the change", "policy", "excess", "", "percent",
              kind="bars", series=""),
    ),
    notes=(
        "Settled: the true cost of the order in force is within 5 % of the new best order's and stays so for 20,000 "
        "tuples. A policy that never settles counts with the whole time after the change.",
        "The permutation is drawn anew until the old best order costs at least 1.25 times the new best.",
    ),
)  # fmt: skip


# Figures 4.22 to 4.24: the characteristics are permuted again and again


def periodic(
    period: int, c: int, contenders: Sequence[Contender], tuples: int, seed: int, span: str = ""
) -> list[dict[str, Value]]:
    """Cost for each tuple of a workload whose characteristics are permuted every `period` tuples."""
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
    found = check.below({"change of Sweep/A-Greedy for each longer period": check.slope(ratios)}, 0.0)
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
        Claim("At fast change A-Greedy and Independent clearly beat Sweep and LocalSwaps", _fast_change),
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
              "units of work for each tuple", logx=True),
        Panel("ratio", "The same against the best order of every phase", "period", "vs_best", "tuples between changes",
              "work / best", logx=True),
    ),
    notes=("The thesis plots total time for a fixed workload; here it is work for each tuple, so that streams of "
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
    change = {"change of Sweep/A-Greedy for each step of c": check.slope(ratios)}
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
        Panel("short", "Figure 4.23: the short period", "c", "vs_best", "cost c of the dear filters", "work / best",
              where={"span": "short"}),
        Panel("long", "Figure 4.24: the long period", "c", "vs_best", "cost c of the dear filters", "work / best",
              where={"span": "long"}),
    ),
    notes=("The thesis plots time; work over that of the best order of every phase shows the same order.",),
)  # fmt: skip
