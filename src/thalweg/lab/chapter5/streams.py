"""The streams of chapter 5's experiments (thesis 5.8.1, 5.8.3, 5.8.4): elements of Q3, of Qn, and of table 5.2.

Q3 is R(A), S(A, B), T(B); Qn joins n streams on one key. Windows hold rows. What the thesis leaves open is decided here:
values of Q3 and Qn never come back once they left, so a cache misses once for each value; a selectivity of table 5.2 is
made by drawing each stream's key from a set of 100 values of its own, and letting the sets overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from thalweg.lab.elements.join import Arrival, Element, Held, Join, elements

Q3 = Join(("r", "s", "t"), ((0,), (0, 1), (1,)))
SCANNED = Join(Q3.names, Q3.classes, scanned=((1, 1),))
"""Q3 without an index on S.B: rows of T look through the window of S."""


@dataclass(frozen=True)
class Streams:
    """Elements of a join; the first `warm` fill the windows and are not counted."""

    join: Join
    elements: tuple[Element, ...]
    warm: int


def prepared(join: Join, arrivals: Sequence[Arrival], windows: Sequence[int], filled: float) -> Streams:
    """Windows of rows; they are full at the time `filled`."""
    made = tuple(elements(join, arrivals, [Held(rows=w) for w in windows]))
    early = sum(time < filled for time, _, _ in arrivals)
    entered = np.cumsum([enters for _, _, enters in made])
    return Streams(join, made, int(np.searchsorted(entered, early)) + 1)


def three(
    values: int, window: int, repeats: int, seed: int, *, matching: float = 1.0, multiplicity: int = 1, every: int = 1,
    join: Join = Q3,
) -> Streams:  # fmt: skip
    """Values in the same order in R.A, S.A, S.B and T.B (5.8.3): once in R, `multiplicity` times in S, `repeats` times in
    T for each `every`-th value. A share `matching` of R's rows has a partner in S. A window holds the rows of `window`
    values."""
    random = np.random.default_rng([seed, 53])
    found: list[Arrival] = []
    for v in range(values):
        rows: list[tuple[int, tuple[int, ...]]] = [(0, (v if random.random() < matching else -1 - v,))]
        rows += [(1, (v, v))] * multiplicity
        rows += [(2, (v,))] * (repeats if v % every == 0 else 0)
        found += [(v + t, *rows[k]) for t, k in zip(np.sort(random.random(len(rows))), random.permutation(len(rows)),
                                                    strict=True)]  # fmt: skip
    sizes = (window, window * multiplicity, max(window * repeats // every, 1))
    return prepared(join, found, sizes, filled=window)


def bursting(values: int, at: int, window: int, repeats: int, times: int, seed: int) -> Streams:
    """Q3 as in `three`, until R brings each value `times` times, from value `at` on (5.8.5)."""
    random = np.random.default_rng([seed, 522])
    found: list[Arrival] = []
    for v in range(values):
        rows = [(0, (v,))] * (times if v >= at else 1) + [(1, (v, v))] + [(2, (v,))] * repeats
        order = random.permutation(len(rows))
        found += [(v + k / len(rows), *rows[j]) for k, j in enumerate(order.tolist())]
    return prepared(Q3, found, (window, window, window * repeats), filled=window)


def on_one_key(values: int, window: int, multiplicities: Sequence[int], seed: int, *, filled: int) -> Streams:
    """Qn: values in the same order in all streams, each as often as the stream's multiplicity says."""
    random = np.random.default_rng([seed, 517])
    n = len(multiplicities)
    found: list[Arrival] = []
    for v in range(values):
        rows = [i for i, m in enumerate(multiplicities) for _ in range(m)]
        random.shuffle(rows)
        found += [(v + k / len(rows), i, (v,)) for k, i in enumerate(rows)]
    names = tuple(f"s{i + 1}" for i in range(n))
    return prepared(Join(names, ((0,),) * n), found, [window * m for m in multiplicities], filled=filled)


NAMES = "RSTU"
SIZE = 100
"""Values that a stream draws from in D1 to D7; so two streams that share k of them join with selectivity k / 10,000."""


@dataclass(frozen=True)
class Point:
    """A column of table 5.2: rates, and the number of values that belong to exactly these streams."""

    rates: tuple[int, int, int, int]
    cells: str

    def sets(self) -> list[list[int]]:
        """
        >>> [len(s) for s in POINTS["D1"].sets()]
        [100, 100, 100, 100]
        """
        found: list[list[int]] = [[] for _ in NAMES]
        value = 0
        for cell in self.cells.split():
            streams, count = cell.rstrip("0123456789"), int(cell.lstrip(NAMES))
            for i in map(NAMES.index, streams):
                found[i] += range(value, value + count)
            value += count
        return found


POINTS = {
    "D1": Point((10, 1, 1, 1), "RS15 RT10 RU35 ST15 SU15 TU5 RST25 RTU15 STU30"),
    "D1b": Point((10, 1, 1, 1), "R40 S25 T10 U35 RT10 RU10 ST30 SU5 TU10 RSTU40"),
    "D2": Point((8, 1, 1, 8), "RS15 RT10 RU35 ST15 SU15 TU5 RST25 RTU15 STU30"),
    "D2b": Point((8, 1, 1, 8), "R40 S25 T10 U35 RT10 RU10 ST30 SU5 TU10 RSTU40"),
    "D3": Point((10, 15, 1, 5), "R30 S40 T20 RU5 RSU15 RTU35 STU30 RSTU15"),
    "D4": Point((1, 1, 1, 1), "R3 S67 T53 U23 RS10 RT20 RU47 SU3 TU7 RSTU20"),
    "D5": Point((4, 1, 1, 4), "S10 U40 RT40 RU10 ST30 SU10 RST10 RSU20 RSTU20"),
    "D6": Point((1, 1, 1, 1), "R42 S8 U25 RS25 RT8 ST17 TU25 STU25 RSTU25"),
    "D7": Point((1, 1, 1, 1), "R100 S100 T100 U100"),
    "D8": Point((1, 1, 1, 1), "RSTU1000"),
}
"""D1b and D2b have the same rates and pairwise selectivities, but other overlaps of three and four."""


def four(point: str, rows: int, window: int, seed: int) -> Streams:
    """A join of four on one key as table 5.2 has it: this many rows after windows of equal size have filled."""
    random = np.random.default_rng([seed, 521])
    chosen = POINTS[point]
    rates = np.array(chosen.rates, float)
    filling = int(1.2 * window * rates.sum() / rates.min())
    streams = random.choice(4, filling + rows, p=rates / rates.sum())
    sets = [np.array(s) for s in chosen.sets()]
    arrivals = [(float(t), int(i), (int(random.choice(sets[i])),)) for t, i in enumerate(streams)]
    return prepared(Join(tuple("rstu"), ((0,),) * 4), arrivals, [window] * 4, filled=filling)
