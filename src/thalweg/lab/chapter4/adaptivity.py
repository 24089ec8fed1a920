"""Figures 4.19 to 4.21: how fast each algorithm adapts to one change (thesis 4.7.4).

A change permutes the characteristics of the filters: each filter takes over the group and selectivity of another.
Groups have the selectivities 0.2, 0.4, 0.6 and 0.8; Γ = 2, n = 8. The true cost of every order in every phase is known,
so the distance of a policy from the best order is exact.
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
    ours,
    thesis,
)
from thalweg.lab.chapter4.convergence import PAPER
from thalweg.lab.chapter4.generator import Population, spread
from thalweg.lab.experiment import Claim, Experiment, Finding, Measurements, Panel, Trial, Value
from thalweg.lab.simulate import Simulated, order_work

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
    """One change after `before` tuples; evaluations every 2,000 tuples, and the time to recover from the change."""
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
        if contender.policy != "lottery":  # it draws routes, so no single order is in force
            ratios = _ratios(new, costs, went, before)
            row |= {
                "settled": settle(ratios, 1.05) * went.batch, "jump": float(np.abs(np.diff(ratios)).max()),
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
    population: Population, costs: Sequence[float], went: Simulated, first: int, last: int | None = None
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """True cost of the order in force against the best, for each batch from tuple `first` on."""
    orders = went.orders[first // went.batch : None if last is None else last // went.batch]
    least = population.best(costs)[1]
    known = {order: population.cost(order, costs) / least for order in set(orders)}
    return np.array([known[order] for order in orders])


def settle(ratios: np.ndarray[tuple[int, ...], np.dtype[np.float64]], goal: float) -> int:
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


experiment = Experiment(
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
        Claim("A-Greedy recovers from the change sooner than Sweep", lambda m: _sooner(m, A_GREEDY, SWEEP)),
        Claim("A-Greedy recovers from the change sooner than LocalSwaps", lambda m: _sooner(m, A_GREEDY, LOCAL_SWAPS)),
        Claim(
            "LocalSwaps descends more smoothly than Sweep: its largest jump is smaller",
            lambda m: check.above(
                {"Sweep's largest jump in cost minus LocalSwaps'":
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
        "The permutation is drawn again until the old best order costs at least 1.25 times the new best.",
    ),
)  # fmt: skip
