"""How a claim is decided from estimates: agrees, does not, or can't say.

Invariant: "agrees" needs every interval entirely on the claimed side; "does not" needs at least one entirely on the
other side; anything in between is "can't say". A claim with several parts gets the verdict of its worst part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from thalweg.lab.estimate import Estimate, estimate
from thalweg.lab.experiment import Finding, Value, Verdict

LISTED = 8
"""Up to this many estimates are listed one by one."""


def above(estimates: Mapping[str, Estimate], bound: float) -> Finding:
    """Every estimate lies above the bound.

    >>> above({"n=3": Estimate(1.2, 1.1, 1.3, 5), "n=8": Estimate(1.5, 0.9, 2.1, 5)}, 1.0)
    Finding(verdict="can't say", numbers='n=3: 1.200 ±0.100, n=8: 1.500 ±0.600')
    """
    if not estimates or any(np.isnan(e.mean) for e in estimates.values()):
        return Finding("can't say", shown(estimates) or "nothing measured")
    if all(e.low > bound for e in estimates.values()):
        return Finding("agrees", shown(estimates))
    wrong = any(e.high <= bound for e in estimates.values())
    return Finding("does not" if wrong else "can't say", shown(estimates))


def below(estimates: Mapping[str, Estimate], bound: float) -> Finding:
    """Every estimate lies below the bound."""
    mirrored = {k: Estimate(-e.mean, -e.high, -e.low, e.count) for k, e in estimates.items()}
    return Finding(above(mirrored, -bound).verdict, shown(estimates) or "nothing measured")


def within(
    estimates: Mapping[str, Estimate], targets: Mapping[str, float], share: float, target: str = "paper"
) -> Finding:
    """Every mean is its target, give or take `share` of the target. An interval across the edge gives "can't say"."""
    verdicts: list[Verdict] = []
    for name, e in estimates.items():
        low, high = targets[name] * (1 - share), targets[name] * (1 + share)
        inside, outside = e.low >= low and e.high <= high, e.high < low or e.low > high
        verdicts.append("agrees" if inside else "does not" if outside else "can't say")
    beside = {k: f" ({target} {targets[k]:g})" if target else "" for k in estimates}
    numbers = ", ".join(f"{k}: {e}{beside[k]}" for k, e in estimates.items())
    return Finding(worst(verdicts), numbers or "nothing measured")


def both(*findings: Finding) -> Finding:
    """The parts of a claim, combined."""
    return Finding(worst([f.verdict for f in findings]), "; ".join(f.numbers for f in findings))


def worst(verdicts: Sequence[Verdict]) -> Verdict:
    if "does not" in verdicts:
        return "does not"
    return "agrees" if verdicts and "can't say" not in verdicts else "can't say"


def exactly(measured: Mapping[str, float], expected: Mapping[str, float]) -> Finding:
    """Numbers without noise must equal the expected ones up to rounding."""
    numbers = ", ".join(f"{k}: {v:.6g} (expected {expected[k]:.6g})" for k, v in measured.items())
    if not measured:
        return Finding("can't say", "nothing measured")
    same = all(abs(v - expected[k]) <= 1e-9 * max(1.0, abs(expected[k])) for k, v in measured.items())
    return Finding("agrees" if same else "does not", numbers)


def slope(values: Mapping[Value, Mapping[Value, float]]) -> Estimate:
    """How much a quantity rises from one x to the next (least squares over the rank of x), one slope per seed.

    >>> slope({3: {1: 1.0, 2: 1.0}, 8: {1: 1.5, 2: 1.7}}).mean
    0.6
    """
    ranks = np.arange(len(values), dtype=float)
    ranks -= ranks.mean()
    seeds = list(next(iter(values.values())))
    lines = np.array([[by_seed[s] for by_seed in values.values()] for s in seeds])
    return estimate((lines @ ranks / (ranks @ ranks)).tolist())


def shown(estimates: Mapping[str, Estimate]) -> str:
    """All estimates, or the smallest and largest if there are many. The figures and raw.json have the rest."""
    if len(estimates) > LISTED:
        ends = sorted(estimates.items(), key=lambda item: item[1].mean)
        (low, least), (high, greatest) = ends[0], ends[-1]
        return f"{len(estimates)} values, from {low}: {least} to {high}: {greatest}"
    return ", ".join(f"{k}: {e}" for k, e in estimates.items())
