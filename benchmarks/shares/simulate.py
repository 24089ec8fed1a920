"""Places tuples into cells as packing does, and counts the rows of each cell.

Chain: a - b - c - d, three keys. Star: a meets b, c and d, three keys, all in a. Clique: each pair of four streams has a
key of its own, six keys. Every stream brings the same number of tuples; keys are uniform, or Zipf with exponent 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.engine.placing import ByShares
from thalweg.execute.shape import Shape
from thalweg.language.bind import bind
from thalweg.language.query import Query, Source
from thalweg.optimize import shares as sharing
from thalweg.plan.shares import Shares

STREAMS = "abcd"
EDGES = {
    "chain": (("a", "b"), ("b", "c"), ("c", "d")),
    "star": (("a", "b"), ("a", "c"), ("a", "d")),
    "clique": tuple(combinations(STREAMS, 2)),
}
CELLS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 100, 128, 216, 256, 360, 512, 729, 1000)
KEYS = ("uniform", "zipf")
DOMAIN = 1_000_000


@dataclass(frozen=True)
class Point:
    """One cut of one query for one kind of keys."""

    shape: str
    keys: str
    cells: int
    sizes: tuple[int, ...]
    copies: float
    """Rows sent per row read."""
    busiest: float
    """Rows of the busiest cell relative to the mean."""
    speed_up: float
    """All rows divided by the rows of the busiest cell: the largest possible speed-up over one cell."""
    empty: int
    """Cells that got no row."""


def query(shape: str) -> Query:
    """The join of a shape; every edge has a column of its own in both streams."""
    columns = {s: ["ts", *(a + b for a, b in EDGES[shape] if s in (a, b))] for s in STREAMS}
    where = " AND ".join(f"{a}.{a}{b} = {b}.{a}{b}" for a, b in EDGES[shape])
    sources = {
        s: Source(pa.schema([(c, pa.int64()) for c in names]), time="ts", unit="ms") for s, names in columns.items()
    }
    return bind(f"SELECT a.ts FROM a, b, c, d WHERE {where} WINDOW 10 SECONDS", sources).query


def tuples(q: Query, keys: str, rows: int, seed: int) -> dict[str, pa.RecordBatch]:
    draw = np.random.default_rng(seed)
    made = {}
    for i in q.inputs:
        arrays = []
        for name in i.spec.schema.names:
            if name == "ts":
                values = np.arange(rows)
            elif keys == "uniform":
                values = draw.integers(0, DOMAIN, rows)
            else:
                values = np.floor(DOMAIN ** draw.random(rows)).astype(np.int64)  # Zipf of exponent 1, by its inverse
            arrays.append(pa.array(values, pa.int64()))
        made[i.alias] = pa.RecordBatch.from_arrays(arrays, schema=i.spec.schema)
    return made


def loads(q: Query, shares: Shares, data: dict[str, pa.RecordBatch]) -> NDArray[np.int64]:
    """Number of rows of each cell."""
    shape = Shape(q)
    got = np.zeros(shares.cells, np.int64)
    for alias, batch in data.items():
        placing = ByShares(shares).placing(shape, alias)
        base, _ = placing.base(batch)
        counts = np.bincount(base, minlength=shares.cells)
        first = np.flatnonzero(counts)
        np.add.at(got, first[:, None] + placing.offsets[None, :], counts[first][:, None])
    return got


def points(rows: int, seed: int = 1) -> Iterator[Point]:
    for shape in EDGES:
        q = query(shape)
        for keys in KEYS:
            data = tuples(q, keys, rows, seed)
            total = rows * len(data)
            for cells in CELLS:
                shares, _ = sharing.for_query(q, cells)
                got = loads(q, shares, data)
                yield Point(
                    shape, keys, cells, shares.sizes, float(got.sum() / total), float(got.max() / got.mean()),
                    float(total / got.max()), int((got == 0).sum()),
                )  # fmt: skip
