"""Random filter cases: rows of every type predicates meet, predicates whose outcome is known, guards, and rusters.

Invariant: the verdict of a drawn predicate depends only on the row's values and is the same row by row, on Arrow arrays
or on pandas series, so a plain loop over rows knows the answer. As for joins, one generator serves both seeds
(thousands of cheap cases) and Hypothesis (which shrinks what it draws).

One file: the types, values and predicates that are drawn must know each other, so that every verdict is known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa

from thalweg.contract.batch import Batch
from thalweg.execute.filters import Filter
from thalweg.language.functions import Kind
from thalweg.plan import Operator, Pipeline, Purpose, Route, Ruster
from thalweg.plan.ruster import Also
from thalweg.testing.chance import Chance, Seeded, shuffled, strategy

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

Outcome = Literal["pass", "drop", "null", "raise"]
Shape = Literal["array", "chunked", "series", "objects", "nullable", "numpy", "list"]
"""How a vectorised predicate returns its verdicts."""

SHAPES: dict[Kind, tuple[Shape, ...]] = {
    "row": ("array",),
    "arrow": ("array", "chunked", "numpy"),
    "pandas": ("series", "objects", "nullable", "numpy", "list"),
}

TYPES: dict[str, pa.DataType] = {
    "whole": pa.int64(),
    "small": pa.int16(),
    "real": pa.float64(),
    "flag": pa.bool_(),
    "text": pa.string(),
    "money": pa.decimal128(10, 2),
    "moment": pa.timestamp("us", "UTC"),
    "local": pa.timestamp("us"),
    "day": pa.date32(),
    "bytes": pa.binary(),
    "numbers": pa.list_(pa.int32()),
    "pair": pa.struct([("x", pa.int64()), ("y", pa.string())]),
    "pairs": pa.list_(pa.struct([("x", pa.int64()), ("tags", pa.list_(pa.string()))])),
}


class Refused(ValueError):
    """Raised by drawn predicates."""


# --- predicates -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DrawnPredicate:
    """A predicate decided by a hash of its values: below `raises` it raises, then come NULL, true and false.

    Predicates with the same salt and columns are correlated: a row that passes one also passes any looser one.

    >>> p = DrawnPredicate("p", ("whole",), salt=1, passes=0.5)
    >>> [p.outcome(v) for v in (1, 2, 3, 4)]
    ['pass', 'pass', 'drop', 'pass']
    """

    name: str
    columns: tuple[str, ...]
    kind: Kind = "row"
    shape: Shape = "array"
    salt: int = 0
    passes: float = 0.5
    nulls: float = 0.0
    raises: float = 0.0
    after: frozenset[int] = frozenset()

    def outcome(self, *values: Any) -> Outcome:
        text = repr((self.salt, *map(plain, values)))
        chance = int.from_bytes(blake2b(text.encode(), digest_size=4).digest()) / 2**32
        if chance < self.raises:
            return "raise"
        if chance < self.raises + self.nulls:
            return "null"
        return "pass" if chance < self.raises + self.nulls + self.passes else "drop"

    def by_row(self, *values: Any) -> bool | None:
        outcome = self.outcome(*values)
        if outcome == "raise":
            raise Refused(f"{self.name} refuses {plain(values)!r}")
        return None if outcome == "null" else outcome == "pass"

    def by_arrow(self, *arrays: pa.Array) -> Any:
        return _handed_over(
            [self.by_row(*row) for row in zip(*(a.to_pylist() for a in arrays), strict=True)], self.shape
        )

    def by_pandas(self, *series: pd.Series[Any]) -> Any:
        return _handed_over([self.by_row(*row) for row in zip(*series, strict=True)], self.shape)

    def filter(self) -> Filter:
        function = {"row": self.by_row, "arrow": self.by_arrow, "pandas": self.by_pandas}[self.kind]
        return Filter(self.name, function, self.columns, self.kind)


def _handed_over(verdicts: list[bool | None], shape: Shape) -> Any:
    match shape:
        case "array":
            return pa.array(verdicts, pa.bool_())
        case "chunked":
            half = len(verdicts) // 2
            return pa.chunked_array([pa.array(verdicts[:half], pa.bool_()), pa.array(verdicts[half:], pa.bool_())])
        case "series":
            return pd.Series(verdicts)
        case "objects":
            return pd.Series([float("nan") if v is None and i % 2 else v for i, v in enumerate(verdicts)], dtype=object)
        case "nullable":
            return pd.Series(verdicts, dtype="boolean")
        case "numpy":
            return np.array(verdicts)
        case "list":
            return verdicts


def plain(value: Any) -> Any:
    """A plain value, whether Python, Arrow or pandas carried it.

    >>> plain(np.array([1.0, float("nan")])) == plain([1, None])
    True
    """
    if value is None or value is pd.NA or value is pd.NaT:
        return None
    match value:
        case dict():
            return tuple((k, plain(v)) for k, v in value.items())
        case list() | tuple() | np.ndarray():
            return tuple(plain(v) for v in value)
        case bool() | np.bool_():
            return bool(value)
        case float() | np.floating():
            if math.isnan(value):
                return None
            return int(value) if float(value).is_integer() else float(value)
        case int() | np.integer():
            return int(value)
        case datetime():
            moment = value.to_pydatetime() if isinstance(value, pd.Timestamp) else value
            return (moment.astimezone(UTC) if moment.tzinfo else moment).isoformat()
        case date():
            return value.isoformat()
        case Decimal():
            return f"{value.normalize():f}"
    return value


# --- cases ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FilterAnswer:
    """The expected outcome of a case: the rows that leave, or the error that surfaces, as (row, predicate)."""

    kept: tuple[int, ...]
    raised: tuple[int, int] | None


@dataclass(frozen=True)
class FilterCase:
    """Rows and predicates, as plain values: its printed form suffices to run a case again."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    predicates: tuple[DrawnPredicate, ...]

    @cached_property
    def data(self) -> pa.RecordBatch:
        schema = pa.schema([(c, TYPES[c]) for c in self.columns])
        arrays = [pa.array([row[i] for row in self.rows], field.type) for i, field in enumerate(schema)]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    @property
    def batch(self) -> Batch:
        return Batch(self.data)

    @cached_property
    def pipeline(self) -> Pipeline:
        return Pipeline("s", tuple(Operator(p.name, after=p.after) for p in self.predicates))

    @property
    def filters(self) -> list[Filter]:
        return [p.filter() for p in self.predicates]

    def outcome(self, row: int, predicate: int) -> Outcome:
        """A predicate's verdict on a row, asked directly."""
        judge = self.predicates[predicate]
        return judge.outcome(*(self.rows[row][self.columns.index(c)] for c in judge.columns))

    def answer(self) -> FilterAnswer:
        """By brute force: a row leaves iff all hold; an error surfaces iff nothing else drops its row."""
        written = self.pipeline.written
        kept, raised = [], None
        for row in range(len(self.rows)):
            met: dict[int, Outcome] = {}
            for op in written:
                # A predicate has no verdict on a row that fails one of its guards.
                if all(met.get(g) == "pass" for g in self.predicates[op].after):
                    met[op] = self.outcome(row, op)
            if any(o in ("drop", "null") for o in met.values()):
                continue
            errors = [op for op, o in met.items() if o == "raise"]
            if errors:
                raised = raised or (row, errors[0])
            else:
                kept.append(row)
        return FilterAnswer(tuple(kept), raised)


def make_case(seed: int, *, rows: int = 24, predicates: int = 6, raising: bool = True) -> FilterCase:
    """The case of a seed, with limits on its rows and predicates.

    >>> make_case(7) == make_case(7)
    True
    """
    return _case(Seeded(seed), rows, predicates, raising)


def filter_cases(*, rows: int = 12, predicates: int = 5, raising: bool = True) -> SearchStrategy[FilterCase]:
    """Hypothesis strategy of cases."""
    return strategy(lambda chance: _case(chance, rows, predicates, raising))


def batches(*, rows: int = 12) -> SearchStrategy[pa.RecordBatch]:
    """Hypothesis strategy of Arrow batches: numbers, text, decimals, times, binary, nested; NULLs everywhere."""
    return strategy(lambda chance: _case(chance, rows, 0, False).data)


def predicates(columns: Sequence[str] = tuple(TYPES), *, raising: bool = True) -> SearchStrategy[DrawnPredicate]:
    """Hypothesis strategy of predicates over some of the columns of `TYPES`."""
    return strategy(lambda chance: _predicate(chance, "p", columns, (), raising))


def pipelines(*, operators: int = 10, stems: bool = False) -> SearchStrategy[Pipeline]:
    """Hypothesis strategy of pipelines with guards, and with stems where wanted."""
    return strategy(lambda chance: make_pipeline(chance, chance.integer(0, operators), stems=stems))


def _case(chance: Chance, most_rows: int, most_predicates: int, raising: bool) -> FilterCase:
    columns = tuple(c for c in TYPES if chance.yes(0.3)) or ("whole",)
    # Values repeat, so predicates over one column agree on rows and errors come in groups.
    pools = [[_value(chance, TYPES[c]) for _ in range(chance.integer(1, 6))] for c in columns]
    count = chance.integer(0, most_rows)
    rows = tuple(tuple(chance.choice(pool) for pool in pools) for _ in range(count))
    names = [f"p{i}" for i in range(chance.integer(0, most_predicates))]
    judges: list[DrawnPredicate] = []
    guards = _guards(chance, len(names), chance.choice((0.0, 0.0, 0.3)))
    for i, name in enumerate(names):
        judge = _predicate(chance, name, columns, judges, raising)
        judges.append(DrawnPredicate(**(vars(judge) | {"after": guards[i]})))
    return FilterCase(columns, rows, tuple(judges))


def _predicate(
    chance: Chance, name: str, columns: Sequence[str], others: Sequence[DrawnPredicate], raising: bool
) -> DrawnPredicate:
    if others and chance.yes(0.4):
        akin = chance.choice(others)
        salt, over = akin.salt, akin.columns
    else:
        salt = chance.integer(0, 999)
        # A predicate over no columns has one verdict for all rows; keep it rare, or it would decide most cases.
        over = () if chance.yes(0.03) else tuple(chance.choice(columns) for _ in range(chance.integer(1, 3)))
    kind: Kind = chance.choice(("row", "row", "arrow", "arrow", "pandas")) if over else "row"
    passes = chance.choice((0.9, 0.5, 0.75, 0.25, 1.0))
    nulls = chance.choice((0.0, 0.1, 0.3))
    raises = chance.choice((0.0, 0.0, 0.1, 0.3, 1.0) if raising else (0.0,))
    return DrawnPredicate(
        name, over, kind, chance.choice(SHAPES[kind]), salt,
        passes * (1 - nulls) * (1 - raises), nulls * (1 - raises), raises,
    )  # fmt: skip


def _value(chance: Chance, kind: pa.DataType) -> Any:
    if chance.yes(0.2):
        return None
    n = chance.integer(-40, 40)
    if pa.types.is_boolean(kind):
        return n > 0
    if pa.types.is_integer(kind):
        return n * 2**26 if pa.types.is_int64(kind) and chance.yes(0.2) else n
    if pa.types.is_floating(kind):
        return n / 8
    if pa.types.is_string(kind):
        return chance.choice(("", "a", "ä", "a\u0308", "Ω\n'", "long " * 9)) + str(n % 5)
    if pa.types.is_decimal(kind):
        return Decimal(n * 125) / 100
    if pa.types.is_timestamp(kind):
        moment = datetime(2000, 1, 1) + timedelta(hours=n * 1000, microseconds=n)
        return moment.replace(tzinfo=UTC) if kind.tz else moment
    if pa.types.is_date(kind):
        return date(1970, 1, 1) + timedelta(days=n * 97)
    if pa.types.is_binary(kind):
        return bytes([abs(n), 0, 255][: abs(n) % 4])
    if pa.types.is_list(kind):
        return [_value(chance, kind.value_type) for _ in range(chance.integer(0, 3))]
    return {f.name: _value(chance, f.type) for f in kind}


# --- pipelines and rusters --------------------------------------------------------------------------------------------


def make_pipeline(chance: Chance, operators: int, *, stems: bool = False) -> Pipeline:
    """A pipeline with random guards; with stems, some of them reached only through others, some through nothing."""
    guards = _guards(chance, operators, chance.choice((0.0, 0.15, 0.4)))
    drawn = []
    for i in range(operators):
        if stems and chance.yes(0.6):
            others = [j for j in range(operators) if j != i]
            near = frozenset(chance.choice(others) for _ in range(chance.integer(1, 2))) if others else frozenset()
            drawn.append(Operator(f"s{i}", "stem", near=near if near and chance.yes(0.5) else None))
        else:
            drawn.append(Operator(f"f{i}", after=guards[i]))
    return Pipeline("s", tuple(drawn))


def _guards(chance: Chance, count: int, density: float) -> list[frozenset[int]]:
    """Guards without a circle: an operator waits only for those before it in a random order, not the written one."""
    rank = shuffled(chance, range(count))
    return [
        frozenset(j for j in range(count) if rank[j] < rank[i] and density and chance.yes(density))
        for i in range(count)
    ]


def make_route(chance: Chance, pipeline: Pipeline) -> Route:
    """A random allowed route."""
    route: list[int] = []
    while len(route) < len(pipeline):
        route.append(chance.choice(pipeline.eligible(route)))
    return Route(tuple(route))


def make_rusters(chance: Chance, pipeline: Pipeline, rows: int) -> list[Ruster]:
    """A batch cut at random, more wildly than `chaos` does: rows in any order, empty rusters, every purpose."""
    parts = chance.integer(1, 5)
    order = shuffled(chance, range(rows)) if chance.yes(0.5) else list(range(rows))
    cut: list[list[int]] = [[] for _ in range(parts)]
    for row in order:
        cut[chance.integer(0, parts - 1)].append(row)
    return [_ruster(chance, pipeline, np.array(part, np.int64)) for part in cut]


def _ruster(chance: Chance, pipeline: Pipeline, rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Ruster:
    purpose: Purpose = chance.choice(("work", "explore", "profile", "profile"))
    some = frozenset(i for i in range(len(pipeline)) if chance.yes(0.5))
    choices: tuple[Also, ...] = ("all", "next", some, frozenset())
    if purpose != "profile" and chance.yes(0.4):
        routes = tuple(make_route(chance, pipeline) for _ in range(chance.integer(1, 4)))
        ids = np.array([chance.integer(0, len(routes) - 1) for _ in rows], np.int32)
        return Ruster.mixed(rows, routes, ids, tuple(f"c{k}" for k in range(len(routes))), purpose=purpose)
    return Ruster(
        rows, make_route(chance, pipeline), purpose, chance.choice(choices) if purpose == "profile" else frozenset()
    )


__all__ = [
    "TYPES",
    "DrawnPredicate",
    "FilterAnswer",
    "FilterCase",
    "Refused",
    "batches",
    "filter_cases",
    "make_case",
    "make_pipeline",
    "make_route",
    "make_rusters",
    "pipelines",
    "plain",
    "predicates",
]
