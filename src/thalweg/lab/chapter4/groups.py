"""The generator itself as an experiment: filters of a group agree on 80 %, other pairs by chance; thesis 4.7.2.

Also the true cost of the best, the average and the worst order, which shows how much a good order can save.
"""

from __future__ import annotations

from itertools import permutations

import numpy as np

from thalweg.lab import check
from thalweg.lab.chapter4.convergence import PAPER
from thalweg.lab.chapter4.generator import AGREEMENT, Population
from thalweg.lab.experiment import Claim, Experiment, Finding, Measurements, Panel, Trial, Value

GREATEST = 7
"""Up to this many filters, every order is priced; beyond, a sample of 5,000 orders."""


def agreement(gamma: int, selectivity: float, tuples: int, seed: int) -> list[dict[str, Value]]:
    """How often pairs of eight filters agree, and the share of tuples that each passes."""
    population = Population.of(8, gamma, selectivity)
    bits = population.draw(tuples, np.random.default_rng([seed, gamma]))
    inside: list[float] = []
    outside: list[float] = []
    for i in range(8):
        for j in range(i):
            same = float((bits[:, i] == bits[:, j]).mean())
            (inside if population.groups[i] == population.groups[j] else outside).append(same)
    row: dict[str, Value] = {"what": "agreement", "Γ": gamma, "selectivity": selectivity, "seed": seed}
    row["passes"] = float(bits.mean())
    if inside:
        row["inside"] = float(np.mean(inside))
    if outside:
        row["outside"] = float(np.mean(outside))
    return [row]


def spread_of_orders(n: int, gamma: int, seed: int) -> list[dict[str, Value]]:
    """True costs of orders: best, mean, worst."""
    population, costs = Population.of(n, gamma), [1.0] * n
    random = np.random.default_rng([seed, n, gamma])
    orders = (
        list(permutations(range(n))) if n <= GREATEST else [tuple(random.permutation(n).tolist()) for _ in range(5000)]
    )
    priced = [population.cost(order, costs) for order in orders]
    best = population.best(costs)[1]
    found = {"best": best, "mean": float(np.mean(priced)), "worst": max(*priced, best)}
    return [
        {"what": "orders", "n": n, "Γ": gamma, "seed": seed, "order": name, "cost": cost}
        for name, cost in found.items()
    ]


def _trials(quick: bool, seed: int) -> list[Trial]:
    seeds, tuples = (3, 50_000) if quick else (8, 200_000)
    trials = [
        Trial(f"Γ = {g}, σ = {s}, seed {k}", agreement, {"gamma": g, "selectivity": s, "tuples": tuples, "seed": k})
        for g in (2, 4, 8)
        for s in (0.3, 0.5, 0.7)
        for k in range(seed, seed + seeds)
    ]  # fmt: skip
    factors = (1, 2, 4, 8) if quick else range(1, 9)
    return trials + [
        Trial(f"orders, n = 8, Γ = {g}", spread_of_orders, {"n": 8, "gamma": g, "seed": seed}) for g in factors
    ]


def _inside(measured: Measurements) -> Finding:
    found = {
        f"Γ={g} σ={s}": measured.estimate("inside", what="agreement", selectivity=s, Γ=g)
        for g in (2, 4, 8)
        for s in (0.3, 0.5, 0.7)
    }
    return check.within(found, dict.fromkeys(found, AGREEMENT), 0.01)


def _outside(measured: Measurements) -> Finding:
    found, wanted = {}, {}
    for s in (0.3, 0.5, 0.7):
        for g in (2, 4):
            found[f"Γ={g} σ={s}"] = measured.estimate("outside", what="agreement", selectivity=s, Γ=g)
            wanted[f"Γ={g} σ={s}"] = s**2 + (1 - s) ** 2
    return check.within(found, wanted, 0.01, target="chance")


experiment = Experiment(
    name="generator",
    title="The correlation model",
    paper=PAPER,
    section="4.7.2",
    figures=("generator",),
    varies="Γ and selectivity; Γ for the spread of all orders",
    fixed="n = 8, agreement 80 %",
    trials=_trials,
    claims=(
        Claim("Filters of one group give the same result on 80 % of the tuples (within 1 %)", _inside),
        Claim("Filters of different groups are independent (agree as often as by chance, within 1 %)", _outside),
    ),
    panels=(
        Panel("orders", "What a good order saves: true cost of orders, n = 8", "Γ", "cost", "correlation factor Γ",
              "evaluations per tuple", series="order", where={"what": "orders"}),
    ),
    notes=("The mean and the worst of n = 8 come from 5,000 random orders.",),
)  # fmt: skip
