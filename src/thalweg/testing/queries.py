"""Random cases of whole queries: a query (`querydraw.py`), few rows that tie, repeat and lack values, and their history.

Times are small integers in microseconds, so that every instant can be looked at. Invariant: the seed alone decides a
case, on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from thalweg.testing.chance import Chance, Seeded
from thalweg.testing.joincase import Advance, CaseSource, Push, Restart, Row, Step
from thalweg.testing.joins import POLICIES
from thalweg.testing.querycase import From, QueryCase, nodes
from thalweg.testing.querydraw import QueryMaker

VALUES: dict[str, tuple[Any, ...]] = {
    "k": (0, 1, 2, None), "g": ("x", "y", "", None), "v": (-1, 0, 1, 3, None), "w": (0.5, -2.0, float("nan"), None),
    "d": (Decimal("0.50"), Decimal("-1.00"), Decimal("2.25"), None),
}  # fmt: skip
TYPES = {"k": pa.int64(), "g": pa.string(), "v": pa.int64(), "w": pa.float64(), "d": pa.decimal128(9, 2)}


def make_query(seed: int, *, policies: Sequence[str] = POLICIES) -> QueryCase:
    """The case of a seed.

    >>> make_query(3) == make_query(3)
    True
    """
    chance = Seeded(seed)
    drawn = QueryMaker(chance).query()
    read = sorted({f.source for f in nodes(drawn.query, From) if f.source})
    moments = chance.yes(0.3)
    span = chance.integer(2, 24)
    sources = tuple(made_source(chance, name, drawn.streams[name], span, moments) for name in read)
    timed = drawn.timed and any(s.time for s in sources)
    return QueryCase(
        seed, sources, drawn.query, tuple(made_steps(chance, sources, span)), chance.choice(policies), drawn.stream,
        drawn.every, drawn.slide, timed, drawn.limit, chance.choice((1, 3, 8, 1024)), chance.choice((1, 3, 1 << 14)),
    )  # fmt: skip


def made_source(chance: Chance, name: str, stream: bool, span: int, moments: bool) -> CaseSource:
    c = chance
    count = c.choice((0, 1, 3, 6, 6, 9))
    nulls = c.yes(0.6)
    pools = {n: [v for v in values if nulls or v is not None] for n, values in VALUES.items()}
    rows: list[Row] = []
    for _ in range(count):
        if rows and c.yes(0.15):
            rows.append((c.integer(0, span), *rows[-1][1:]))
        else:
            rows.append((c.integer(0, span), *(c.choice(pool) for pool in pools.values())))
    if not stream:
        schema = pa.schema(list(TYPES.items()))
        return CaseSource(name, schema, tuple(row[1:] for row in rows))
    lateness = c.choice((0, 2, 5))
    # Mostly in order, out of it by less than the lateness, sometimes by more.
    slack = lateness if c.yes(0.7) else lateness + 3
    ordered = sorted(rows, key=lambda row: row[0] + c.integer(0, max(slack, 0)))
    time = pa.timestamp("us") if moments else pa.int64()
    if moments:
        ordered = [(datetime(1970, 1, 1) + timedelta(microseconds=row[0]), *row[1:]) for row in ordered]
    if ordered and c.yes(0.1):
        at = c.integer(0, len(ordered) - 1)
        ordered[at] = (None, *ordered[at][1:])
    schema = pa.schema([("ts", time), *TYPES.items()])
    return CaseSource(name, schema, tuple(ordered), "ts", "us", lateness)


def made_steps(chance: Chance, sources: Sequence[CaseSource], span: int) -> Iterator[Step]:
    """Batches of all streams, roughly together in time; watermarks and restarts in between."""
    c = chance
    left = {s.name: list(range(len(s.rows))) for s in sources if s.time is not None}
    batch = c.choice((1, 2, 4, 100))
    clock = 0
    while any(left.values()):
        clock += max(1, span // c.choice((2, 4, 8)))
        for s in sources:
            while left.get(s.name) and (s.times[left[s.name][0]] or 0) <= clock:
                due = [r for r in left[s.name][:batch] if (s.times[r] or 0) <= clock]
                yield Push(s.name, tuple(due))
                del left[s.name][: len(due)]
                if c.yes(0.1):
                    yield Push(s.name, ())
        if c.yes(0.6):
            lateness = max((s.lateness for s in sources if s.time is not None), default=0)
            marks = tuple((name, clock - lateness) for name in left)
            yield Advance(marks if c.yes(0.4) else None)
        if c.yes(0.2):
            yield Restart()
