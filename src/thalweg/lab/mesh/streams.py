"""The streams of the query mesh experiments, and what their experiments share.

A stream has six attributes, uniform or Poisson. On Poisson data two of the attributes split the stream into three
parts, and each part has a best order of its own.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from thalweg.lab.estimate import Estimate
from thalweg.lab.experiment import Measurements, Trial, Value

PAPER = "Nehme, Works, Lei, Rundensteiner, Bertino: Multi-route query processing and optimization (2012)"
SP, MR, QM = "SP", "MR+CBR", "QM"
CAST = (SP, MR, QM)
OPERATORS, ATTRIBUTES, PARTS = 6, 6, 3


def attributes(kind: str, tuples: int, random: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Six attributes, and the part of each tuple. For Poisson data, whether two of the attributes are 0 gives three parts."""
    if kind == "uniform":
        return random.integers(0, 101, (tuples, ATTRIBUTES)).astype(float), np.zeros(tuples, np.int64)
    values = random.poisson(1.0, (tuples, ATTRIBUTES)).astype(float)
    return values, np.where(values[:, 0] == 0, 0, np.where(values[:, 1] == 0, 1, 2))


def stream(
    kind: str, tuples: int, random: np.random.Generator
) -> tuple[NDArray[np.bool_], dict[str, NDArray[np.float64]]]:
    """Verdicts and attributes."""
    values, part = attributes(kind, tuples, random)
    rates = np.array([random.permutation([0.05, 0.4, 0.7, 0.85, 0.95, 0.95]) for _ in range(PARTS)])
    bits = random.random((tuples, OPERATORS)) < rates[part]
    return bits, {f"a{j}": values[:, j] for j in range(ATTRIBUTES)}


def on_both_kinds(go: Callable[..., list[dict[str, Value]]], tuples: int, seeds: int, seed: int) -> list[Trial]:
    return [
        Trial(f"{kind}, seed {s}", go, {"kind": kind, "tuples": tuples, "seed": s})
        for kind in ("uniform", "poisson")
        for s in range(seed, seed + seeds)
    ]


def work_ratio(measured: Measurements, over: str, under: str, kind: str) -> dict[str, Estimate]:
    return {f"{over}/{under}, {kind}": measured.ratio("work", {"policy": over}, {"policy": under}, data=kind)}
