"""Random predicates for the differential tests: correlated, NULL-returning, throwing and guarded, of every kind.

Each comes as a Thalweg predicate and as a plain function of the row's values, the reference. `make(seed)` is importable
by the programs that the fault tests kill.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import thalweg as tw


@dataclass(frozen=True)
class Modulo:
    """Holds where column % m is in a set; NULL gives NULL. Several over one column are correlated."""

    modulus: int
    held: frozenset[int]
    null_at: int = -1

    def __call__(self, value: int | None) -> bool | None:
        if value is None or value % self.modulus == self.null_at:
            return None
        return value % self.modulus in self.held


@dataclass(frozen=True)
class ArrowModulo:
    plain: Modulo

    def __call__(self, value: pa.Array) -> pa.Array:
        return pa.array([self.plain(v) for v in value.to_pylist()], pa.bool_())


@dataclass(frozen=True)
class PandasModulo:
    plain: Modulo

    def __call__(self, value: pd.Series) -> pd.Series:
        return pd.Series([self.plain(None if pd.isna(v) else int(v)) for v in value], dtype=object)


@dataclass(frozen=True)
class Throwing:
    """Raises on rows that another predicate of the query drops, so the query as a whole has an answer."""

    modulus: int
    forbidden: int

    def __call__(self, value: int | None) -> bool:
        if value is None or value % self.modulus == self.forbidden:
            raise ValueError(f"can't judge {value}")
        return value % self.modulus != (self.forbidden + 1) % self.modulus


def make(seed: int) -> tuple[list[tw.Predicate], Any]:
    """Predicates over columns a, b (both nullable longs), and the reference: (a, b) -> bool."""
    draw = random.Random(seed)
    predicates: list[tw.Predicate] = []
    references: list[tuple[Modulo, str]] = []
    for k in range(draw.randint(1, 5)):
        modulus = draw.choice([2, 3, 5, 7, 10])
        share = draw.uniform(0.2, 1.0)
        held = frozenset(v for v in range(modulus) if draw.random() < share) | {0}
        plain = Modulo(modulus, held, draw.choice([-1, -1, 1]))
        column = draw.choice("ab")
        kind = draw.choice(["row", "arrow", "pandas"])
        function = {"row": plain, "arrow": ArrowModulo(plain), "pandas": PandasModulo(plain)}[kind]
        predicates.append(tw.pred(function, column, kind=kind, name=f"p{k}"))
        references.append((plain, column))
    column = draw.choice("ab")
    fence = Modulo(6, frozenset({0, 2, 3, 4, 5}))  # drops what the thrower can't judge, NULL included
    thrower = Throwing(6, 1)
    guard = ("fence",) if draw.random() < 0.5 else ()
    pair = [tw.pred(fence, column, name="fence"), tw.pred(thrower, column, name="thrower", after=guard)]
    draw.shuffle(pair)
    for p in pair:
        predicates.insert(draw.randint(0, len(predicates)), p)

    def reference(a: int | None, b: int | None) -> bool:
        row = {"a": a, "b": b}
        if not all(plain(row[c]) is True for plain, c in references):
            return False
        return fence(row[column]) is True and thrower(row[column])

    return predicates, reference


def rows(count: int, seed: int) -> list[tuple[int, int | None, int | None]]:
    """(id, a, b) with NULLs and correlated columns."""
    draw = random.Random(seed)
    out = []
    for i in range(count):
        a = None if draw.random() < 0.05 else draw.randint(0, 10_000)
        b = a if draw.random() < 0.5 else None if draw.random() < 0.1 else draw.randint(0, 10_000)
        out.append((i, a, b))
    return out


def write(data: list[tuple[int, int | None, int | None]], folder: Path, files: int) -> None:
    """The rows as parquet files, in order of time for a file source."""
    size = -(-len(data) // files)
    for k in range(files):
        part = list(zip(*data[k * size : (k + 1) * size], strict=True))
        table = pa.table(
            {name: pa.array(column, pa.int64()) for name, column in zip(["id", "a", "b"], part, strict=True)}
        )
        pq.write_table(table, folder / f"part-{k:03}.parquet")
