"""Stream-Star (CBR 6.1): one stream, N dimension look-ups, a classifier attribute that decides what passes.

A foreign-key look-up passes or drops a tuple, so it is a filter. Pass bits are drawn with the rates of the tuple's
class, and work is counted in routing calls, one per operator that a tuple visits. `attrC` identifies the class; eight
other attributes (constants, sequences, keys) predict nothing. Content-Knows and the single best order are exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.contract.batch import Batch
from thalweg.contract.visits import Visits
from thalweg.lab.simulate import best_order, run, travel
from thalweg.optimize.classes.cbr import CBR
from thalweg.plan import Operator, Pipeline

TUPLES = 100_000
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Star:
    """A stream: verdicts, classes and columns."""

    bits: NDArray[np.bool_]
    label: NDArray[np.int64]
    columns: dict[str, NDArray[np.int64]]

    @property
    def joins(self) -> int:
        return int(self.bits.shape[1])


def draw(rates: Floats, tuples: int, random: np.random.Generator) -> Star:
    """Tuples of equally frequent classes; `rates[c, o]` is the pass rate of operator o for class c."""
    label = random.integers(0, len(rates), tuples)
    bits = random.random((tuples, rates.shape[1])) < rates[label]
    keys = {f"fk{i}": random.integers(0, 10_000, tuples) for i in range(5)}
    columns = {
        "seq": np.arange(tuples),
        "one": np.ones(tuples, np.int64),
        "attrC": label,
        "two": np.full(tuples, 2),
        **keys,
    }
    return Star(bits, label, columns)


def skewed(joins: int, a: float, aggregate: float = 0.05) -> Floats:
    """Table 3: one operator of each class passes A, the others B, so that `aggregate` of the tuples pass all.

    >>> skewed(2, 0.05).round(3).tolist()
    [[0.05, 1.0], [1.0, 0.05]]
    """
    b = min((aggregate / a) ** (1 / (joins - 1)), 1.0)
    return np.where(np.eye(joins, dtype=bool), a, b)


def random_rates(classes: int, joins: int, random: np.random.Generator, aggregate: float | None = None) -> Floats:
    """Random pass rates; with `aggregate` given, scaled in the exponent so that each class passes that share."""
    rates = random.uniform(0.05, 0.95, (classes, joins))
    if aggregate is None:
        return rates
    power = np.log(aggregate) / np.log(rates).sum(axis=1, keepdims=True)
    return np.asarray(rates**power)


def calls_of(policy: str, star: Star, seed: int) -> float:
    """Routing calls of a policy."""
    done = run(policy, star.bits, [1.0] * star.joins, seed=seed, columns=star.columns)
    return float(done.evaluations.sum())


def knows(star: Star) -> float:
    """Routing calls of Content-Knows: the best order of each class, known in advance."""
    return sum(best_order(star.bits[star.label == c], [1.0] * star.joins)[1] for c in np.unique(star.label))


def breakdown(star: Star, seed: int) -> dict[str, float]:
    """Content-Learns: routing calls by what decided them, in percent, and their total number."""
    pipeline = Pipeline("star", tuple(Operator(f"Op{i + 1}") for i in range(star.joins)))
    policy, table = CBR(pipeline, seed), pa.record_batch(star.columns)
    right = list(star.columns).index("attrC")
    counts = {"profiling": 0.0, "right": 0.0, "wrong": 0.0, "none": 0.0}
    costs = np.ones(star.joins)
    for number, start in enumerate(range(0, len(star.bits), 1000)):
        piece = star.bits[start : start + 1000]
        trial = policy.learning.trial
        attribute = (trial.table if trial else policy.table).attribute
        rusters = policy.route(Batch(table.slice(start, 1000), number))
        visits = Visits(number, len(piece), tuple(travel(piece, costs, r) for r in rusters))
        for journey in visits.journeys:
            for v in journey.visits:
                j = attribute[v.operator]
                chosen = (
                    "profiling"
                    if journey.ruster.purpose == "profile"
                    else "none"
                    if j < 0
                    else "right"
                    if j == right
                    else "wrong"
                )
                counts[chosen] += v.rows_in
        policy.observe(visits)
    whole = sum(counts.values())
    return {name: 100 * n / whole for name, n in counts.items()} | {"calls": whole}
