"""The streams of AMRI's section 9.1, made from a seed: four streams, a complete join, and what drifts.

Synthetic: every pair of streams has an attribute of its own. The six pairs form three perfect matchings, one selective
and two not. The roles change every half window, so that another order of stems is best. Sensors: a look-alike of the
Intel lab's readings, which are not available. Temperature (to a tenth of a degree) and humidity (to half a percent)
follow the hour and each other; places are few and fixed. A reading has a few equals in each of the other streams.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, permutations

import numpy as np
import pyarrow as pa

from thalweg.language.bind import bind
from thalweg.language.query import Query, Source

PAIRS = tuple(combinations(range(1, 5), 2))
MATCHING = (0, 1, 2, 2, 1, 0)
NAMES = ("s1", "s2", "s3", "s4")
ROLES = tuple(permutations(range(3)))
"""All ways to assign three selectivities to three matchings. The first two share one order for two of the streams."""


ORDERS = len(ROLES)


@dataclass(frozen=True)
class Streams:
    """Tables with one tuple per stream and millisecond, and the query over them."""

    data: dict[str, pa.Table]
    query: Query
    tuples: int
    window: int


def synthetic(tuples: int, window: int, seed: int, orders: int = ORDERS) -> Streams:
    """`orders`: the number of role assignments between which the phases alternate; 1 never changes."""
    random = np.random.default_rng([seed, orders])
    domains = np.array([window / 2, window / 100, window / 100])
    roles = [ROLES[k] for k in random.permutation(6)[:orders]]
    turns = [k % orders for k in range(2 * tuples // window + 1)]
    times = np.arange(tuples)
    phase = np.array(turns)[times // (window // 2)]
    planted = random.random(tuples) < 0.1
    data = {}
    common = {j: random.random(tuples + window // 4) for j in range(6)}
    for s in range(1, 5):
        columns = {"ts": times}
        # Events start before the first tuple. If they were cut off there, hundreds of tuples would share one event.
        event = (times + window // 4 - random.integers(0, window // 4, tuples)) // 8 * 8
        for j, pair in enumerate(PAIRS):
            if s in pair:
                size = domains[np.array([r[MATCHING[j]] for r in roles])[phase]]
                # An event leaves a tuple in every stream. A tenth of all tuples come from events; they join.
                share = np.where(planted, common[j][event], random.random(tuples))
                columns[f"a{pair[0]}{pair[1]}"] = (share * size).astype(np.int64)
        data[f"s{s}"] = pa.table(columns)
    where = " AND ".join(f"s{a}.a{a}{b} = s{b}.a{a}{b}" for a, b in PAIRS)
    return _bound(data, where, tuples, window)


def sensors(tuples: int, window: int, seed: int) -> Streams:
    """Readings of four groups of sensors, joined where temperature, humidity and place are equal."""
    random = np.random.default_rng([seed, 54])
    data = {}
    times = np.arange(tuples)
    hour = np.sin(times / window * np.pi / 2)
    for s in range(1, 5):
        place = random.integers(0, 14, tuples)
        temperature = 22 + 4 * hour + 0.3 * place + random.normal(0, 0.8, tuples)
        humidity = 40 - 6 * hour - 0.8 * (temperature - 22) + random.normal(0, 1.5, tuples)
        data[f"s{s}"] = pa.table(
            {
                "ts": times,
                "temperature": np.round(10 * temperature).astype(np.int64),
                "humidity": np.round(2 * humidity).astype(np.int64),
                "place": place,
            }
        )
    names = ("temperature", "humidity", "place")
    where = " AND ".join(f"s1.{n} = s{s}.{n}" for s in (2, 3, 4) for n in names)
    return _bound(data, where, tuples, window)


def _bound(data: dict[str, pa.Table], where: str, tuples: int, window: int) -> Streams:
    inputs = ", ".join(f"{s} [RANGE {window - 1} MILLISECONDS]" for s in NAMES)
    text = f"SELECT s1.ts AS t1, s2.ts AS t2 FROM {inputs} WHERE {where}"
    query = bind(text, {s: Source(data[s].schema, "ts", "ms") for s in NAMES}).query
    return Streams(data, query, tuples, window)
