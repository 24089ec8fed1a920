"""Figure 5.22: R becomes twenty times as fast, and the plan follows (thesis 5.8.5)."""

from __future__ import annotations

from collections.abc import Sequence
from time import process_time

import numpy as np

from thalweg.lab import check
from thalweg.lab.chapter5.contenders import PAPER, Row
from thalweg.lab.chapter5.streams import bursting
from thalweg.lab.elements.adaptive import INTERVAL, AdaptiveJoin
from thalweg.lab.elements.join import Element
from thalweg.lab.elements.mjoin import MJoin
from thalweg.lab.estimate import Estimate
from thalweg.lab.experiment import Claim, Experiment, Finding, Measurements, Panel, Trial
from thalweg.optimize.caches.candidates import candidates

RS, TS, ADAPTIVE, PLAIN = "T ⋈ (R ⋈ S)", "R ⋈ (T ⋈ S)", "adaptive", "MJoin"
CAST = (PLAIN, TS, RS, ADAPTIVE)
ORDERS = {RS: {0: (1, 2), 1: (0, 2), 2: (1, 0)}, TS: {0: (1, 2), 1: (2, 0), 2: (1, 0)}}
"""Each keeps one cache up on the way: R ⋈ S for the rows of T, or T ⋈ S for those of R."""
WINDOW, REPEATS, TIMES = 100, 5, 20
STEP = 250
"""Rows of S between two points of the figure."""


def followed(before: int, after: int, seed: int) -> list[Row]:
    """Elements for each thousand units of work, over time; what came before the windows were full is left out."""
    streams = bursting(before + after, before, WINDOW, REPEATS, TIMES, seed)
    plans: dict[str, MJoin] = {PLAIN: MJoin(streams.join, ORDERS[RS])}
    for name, orders in ORDERS.items():
        plans[name] = MJoin(streams.join, orders, candidates(orders, streams.join.graph))
    adaptive = plans[ADAPTIVE] = AdaptiveJoin(streams.join, ORDERS[RS], seed=seed)
    rows: list[Row] = []
    answers = set()
    for name, plan in plans.items():
        points: list[tuple[int, int, float]] = []
        work, began, elements, seen, results = 0, process_time(), 0, 0, 0
        for element in streams.elements:
            results += len(plan.take(element))
            elements += 1
            seen += element[0] == 1 and element[2]
            if seen == STEP:
                points.append((elements, plan.work.total - work, process_time() - began))
                work, began, elements, seen = plan.work.total, process_time(), 0, 0
        answers.add(results)
        told = np.array(points)
        at = before // STEP
        row: Row = {"policy": name, "seed": seed, "rate": (1_000 * told[:, 0] / told[:, 1]).tolist()}
        # Steady: without windows that fill, and without the first half of the burst, in which the plan changes.
        for phase, part in (("calm", told[at // 2 : at]), ("burst", told[at + (len(told) - at) // 2 :])):
            sums = part.sum(axis=0)
            row |= {f"{phase} work": float(sums[1] / sums[0]), f"{phase} microseconds": float(1e6 * sums[2] / sums[0])}
        rows.append(row)
    assert len(answers) == 1, f"results differ: {answers}"
    rows[-1] |= _recovery(adaptive, streams.elements, before)
    return rows


def _recovery(adaptive: AdaptiveJoin, elements: Sequence[Element], before: int) -> Row:
    """After how many intervals of the burst the adaptive plan cached T ⋈ S for the rows of R, if it did."""
    seen = begun = 0
    for k, (stream, _, enters) in enumerate(elements):
        seen += stream == 1 and enters
        if seen == before:
            begun = k
            break
    late = [at for at, names in adaptive.history if at > begun and any(n.startswith(("r: s ⋈ t", "r: (s ⋈ t)"))
                                                                      for n in names)]  # fmt: skip
    row: Row = {"in force": "; ".join(f"{at}: {', '.join(names) or 'none'}" for at, names in adaptive.history)}
    row["converged"] = float(bool(late))
    return row | ({"recovery": (late[0] - begun) / INTERVAL} if late else {})


def _trials(quick: bool, seed: int) -> list[Trial]:
    before, after, seeds = (1_500, 750, 2) if quick else (4_000, 1_500, 10)
    return [
        Trial(f"seed {s}", followed, {"before": before, "after": after, "seed": s}) for s in range(seed, seed + seeds)
    ]


def _ratio(m: Measurements, phase: str, over: str, under: str, column: str = "work") -> dict[str, Estimate]:
    return {f"{over} / {under}, {phase}": m.ratio(f"{phase} {column}", {"policy": over}, {"policy": under})}


def _near(m: Measurements, phase: str, other: str) -> Finding:
    return check.both(*(check.below({f"{k}, {c}": e for k, e in _ratio(m, phase, ADAPTIVE, other, c).items()}, 1.1)
                        for c in ("work", "microseconds")))  # fmt: skip


def _recovers(m: Measurements) -> Finding:
    converged = check.above({"runs that converged": m.estimate("converged", policy=ADAPTIVE)}, 0.99)
    if converged.verdict == "does not":
        return converged
    return check.both(converged, check.below({"intervals": m.estimate("recovery", policy=ADAPTIVE)}, 4.0))


experiment = Experiment(
    name="5.22",
    title="A stream becomes twenty times as fast",
    paper=PAPER,
    section="5.8.5",
    figures=("5.22",),
    varies="rate of R: 20 times as high from row 4,000 of S on",
    fixed=f"Q3, r = {REPEATS}, windows of {WINDOW} values, re-optimization every {INTERVAL:,} elements, profiling included",
    trials=_trials,
    cast=CAST,
    claims=(
        Claim("Before the burst, R ⋈ S cached is the better of the two static plans.",
              lambda m: check.below(_ratio(m, "calm", RS, TS), 1.0)),
        Claim("Before the burst, the adaptive plan is almost as good: within a tenth, in work and time.",
              lambda m: _near(m, "calm", RS)),
        Claim("In the burst, R ⋈ S cached is the worse one.", lambda m: check.above(_ratio(m, "burst", RS, TS), 1.0)),
        Claim("The adaptive plan converges to a cache of T ⋈ S for the rows of R (globally consistent), quickly: here within "
              "four intervals.", _recovers),
        Claim("In the second half of the burst it is almost as good as T ⋈ S cached: within a tenth, in work and time.",
              lambda m: _near(m, "burst", TS)),
        Claim("It then does less work than the plan that was best before.",
              lambda m: check.below(_ratio(m, "burst", ADAPTIVE, RS), 1.0)),
    ),
    panels=(Panel("rate", "Figure 5.22: rate, in elements for a thousand units of work", "", "rate", "rows of S",
                  "elements", kind="timeline", step=STEP),),
    notes=("The thesis' burst begins at row 100,000 of S; ours at row 4,000, which is five intervals.",
           "In the burst R brings each value twenty times. Orders are given; caches are chosen."),
)  # fmt: skip
