"""The contenders of chapter 4: the thesis' four algorithms with the settings of Table 4.1, its yardstick Optimal, and ours.

Table 4.1: p = 0.01 (Independent 0.005), window of 1000 profile tuples (Sweep 500), α = 0.9. It gives no p for Sweep and
LocalSwaps; they use A-Greedy's, as section 4.4 says of Sweep. Where a figure uses another p, Independent gets half of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from thalweg.lab.chapter4.generator import Population
from thalweg.lab.experiment import Value
from thalweg.lab.simulate import PassBits, Simulated, order_work, run

ALPHA = 0.9
OPTIMAL, WRITTEN = "Optimal", "as written"
A_GREEDY, SWEEP, INDEPENDENT, LOCAL_SWAPS = "A-Greedy", "Sweep", "Independent", "LocalSwaps"
FOLLOWING, AUTO, LOTTERY = "agreedy (ours)", "auto (ours)", "lottery"
CAST = (OPTIMAL, A_GREEDY, SWEEP, INDEPENDENT, LOCAL_SWAPS, FOLLOWING, AUTO, LOTTERY, WRITTEN)


@dataclass(frozen=True)
class Contender:
    """A policy under the name that figures show."""

    name: str
    policy: str
    options: dict[str, Any] = field(default_factory=dict)

    def run(self, bits: PassBits, costs: Sequence[float], seed: int, batch: int = 1000) -> Simulated:
        return run(self.policy, bits, costs, seed=seed, batch=batch, **self.options)


def thesis(p: float = 0.01) -> list[Contender]:
    """The four algorithms of the thesis."""
    return [
        Contender(A_GREEDY, "agreedy", {"follow": False, "p": p, "window": 1000, "alpha": ALPHA}),
        Contender(SWEEP, "sweep", {"p": p, "window": 500, "alpha": ALPHA}),
        Contender(INDEPENDENT, "independent", {"p": p / 2, "window": 1000, "alpha": ALPHA}),
        Contender(LOCAL_SWAPS, "localswaps", {"p": p, "window": 1000, "alpha": ALPHA}),
    ]


def ours() -> list[Contender]:
    """Thalweg's own settings: A-Greedy that follows change, and `auto`, the default."""
    return [Contender(FOLLOWING, "agreedy"), Contender(AUTO, "auto")]


def named(contenders: Sequence[Contender], *names: str) -> list[Contender]:
    return [c for c in contenders if c.name in names]


def lottery() -> list[Contender]:
    """The eddy's tickets, for comparison."""
    return [Contender(LOTTERY, "lottery")]


STEADY_BATCH = 2000
"""Tuples between decisions on stationary streams, where deciding more often gains nothing."""


def steady(
    x: dict[str, Value], population: Population, costs: Sequence[float], contenders: Sequence[Contender],
    tuples: int, settle: int, seed: int,
) -> list[dict[str, Value]]:  # fmt: skip
    """Every contender over the same stationary stream: its cost per tuple after the first `settle` tuples.

    The seed draws the order of the filters, so that nobody is lucky with the written one.
    """
    random = np.random.default_rng([seed, len(population)])
    permutation = [int(i) for i in random.permutation(len(population))]
    filters, price = population.permuted(permutation), [float(costs[i]) for i in permutation]
    bits = filters.draw(tuples, random)
    best, least = filters.best(price)
    rows = [
        _row(x, OPTIMAL, seed, order_work(bits[settle:], best, price) / (tuples - settle), 0.0)
        | {"order_ratio": 1.0, "reorders": 0}
    ]
    for contender in contenders:
        went = contender.run(bits, price, seed, STEADY_BATCH)
        start, counted = settle // went.batch, tuples - settle
        rows.append(
            _row(x, contender.name, seed, went.useful[start:].sum() / counted, went.extra[start:].sum() / counted)
            | {"reorders": went.reorders}
        )
        if contender.policy != "lottery":  # it draws routes, so no single order is in force
            rows[-1]["order_ratio"] = _order_ratio(filters, price, went, start, least)
    least_work = float(np.asarray(rows[0]["cost"], float))
    return [row | {"vs_optimal": float(np.asarray(row["cost"], float)) / least_work} for row in rows]


def _row(x: dict[str, Value], policy: str, seed: int, useful: float, extra: float) -> dict[str, Value]:
    total = float(useful + extra)
    return x | {
        "policy": policy, "seed": seed, "useful": float(useful), "extra": float(extra), "cost": total,
        "rate": 1000 / total, "overhead": 100 * float(extra) / total,
    }  # fmt: skip


def _order_ratio(population: Population, costs: Sequence[float], went: Simulated, start: int, least: float) -> float:
    """True cost of the orders in force relative to the best order, without the noise of the stream."""
    known = {order: population.cost(order, costs) for order in set(went.orders[start:])}
    return float(np.mean([known[order] for order in went.orders[start:]])) / least
