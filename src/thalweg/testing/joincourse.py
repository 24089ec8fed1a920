"""Courses of joins: small queries over streams and tables, run by the engine, whose best order changes halfway.

The engine calls the policies as it always does: scouts ahead, rests, classes while frozen. All decisions stand on
recorded costs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from thalweg.engine.block import BlockEngine
from thalweg.execute.meter import RecordedMeter
from thalweg.language.bind import bind
from thalweg.language.query import Source
from thalweg.testing.courses import Drive, Make

SECOND = 1_000
"""One round of batches lasts this long; times are milliseconds."""
COSTS = (3e-6, 2e-6, 1e-6, 2e-6, 3e-6, 1e-6)
"""Seconds of each operator, for a row of a filter or a unit of work of a stem."""

KINDS = (0, 0, 0, 0, 1, 2, 2, 2, 2)
"""What kind a row is of: some kinds are rare."""

Round = Mapping[str, pa.Table]
"""By stream, the batch that it sends."""


@dataclass(frozen=True)
class JoinCourse:
    """A query, its tables, and the rounds of batches that its streams send."""

    text: str
    sources: Mapping[str, Source]
    rounds: Sequence[Round]
    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)

    def run(self, make: Make, seed: int = 5, caches: str = "off") -> JoinRun:
        return JoinRun(self, make, seed, caches)


class JoinRun(Drive):
    def __init__(self, course: JoinCourse, make: Make, seed: int, caches: str) -> None:
        super().__init__(make, seed)
        self.course = course
        query = bind(course.text, dict(course.sources), dict(course.functions)).query
        self.engine = BlockEngine(
            query, policy=self.make, seed=seed, tables=course.tables, slice_rows=64, caches=caches,
            meters={entry.alias: RecordedMeter(COSTS) for entry in query.inputs},
        )  # fmt: skip

    @property
    def length(self) -> int:
        return len(self.course.rounds)

    def feed(self, step: int) -> tuple[Any, ...]:
        found: list[tuple[Any, ...]] = []
        for source, batch in self.course.rounds[step].items():
            out = self.engine.push(source, batch)
            found += zip(*(column.to_pylist() for column in out.columns), strict=True)
        self.engine.advance((step + 1) * SECOND)
        return tuple(sorted(found))

    def save(self) -> tuple[int, dict[str, bytes]]:
        return self.taken, self.engine.snapshot()

    def load(self, saved: tuple[int, dict[str, bytes]]) -> None:
        self.taken = saved[0]
        self.engine.restore(saved[1])


# --- queries ----------------------------------------------------------------------------------------------------------

STREAM = Source(
    pa.schema([("ts", pa.int64()), ("n", pa.int64()), ("k", pa.int64()), ("j", pa.int64()), ("kind", pa.int64())]),
    "ts", "ms",
)  # fmt: skip
TABLE = Source(pa.schema([("k", pa.int64()), ("x", pa.int64())]))

MEETING = """
    SELECT a.n AS a, b.n AS b, c.n AS c FROM a [RANGE 3 SECONDS], b [RANGE 3 SECONDS], c [RANGE 2 SECONDS]
    WHERE a.k = b.k AND b.k = c.k AND a.j = c.j AND most(a.n)
"""
CHAINED = """
    SELECT a.n AS a, b.n AS b, c.n AS c, t.x AS t FROM a [RANGE 2 SECONDS], b [RANGE 2 SECONDS], c [RANGE 2 SECONDS], t
    WHERE a.k = b.k AND b.j = c.j AND c.k = t.k AND a.n + b.n >= c.n
"""
LOOKUPS = """
    SELECT s.n AS s, t.x AS t, u.x AS u, v.x AS v FROM s [NOW], t, u, v
    WHERE s.k = t.k AND s.j = u.k AND s.n = v.k AND most(s.n) AND some(s.k, s.j)
"""
PAIR = "SELECT a.n AS a, b.n AS b FROM a [RANGE 2 SECONDS], b [RANGE 2 SECONDS] WHERE a.k = b.k"
PRODUCT = """
    SELECT a.n AS a, b.n AS b, c.n AS c FROM a [RANGE 1 SECOND] CROSS JOIN b [RANGE 1 SECOND]
    JOIN c [RANGE 1 SECOND] ON b.k = c.k
"""


def most(n: int) -> bool:
    return n % 8 != 0


def some(k: int, j: int) -> bool:
    return (k + j) % 3 != 0


def meeting(rows: int | Sequence[int] = 200, rounds: int = 16, *, keys: tuple[int, int] = (120, 700)) -> JoinCourse:
    """Three streams that all join each other, and a Python filter. `keys`: how many there are in b and in c, which
    change places halfway."""
    return JoinCourse(
        MEETING, dict.fromkeys("abc", STREAM), _rounds("abc", rows, rounds, keys), functions={"most": most}
    )


def chained(rows: int | Sequence[int] = 60, rounds: int = 10) -> JoinCourse:
    """Three streams and a table in a row, with a predicate over three of them: most orders are not allowed."""
    table = pa.table({"k": np.arange(40), "x": np.arange(40)}, schema=TABLE.schema)
    sources = {**dict.fromkeys("abc", STREAM), "t": TABLE}
    return JoinCourse(CHAINED, sources, _rounds("abc", rows, rounds, (40, 80)), {"t": table})


def lookups(rows: int | Sequence[int] = 1200, rounds: int = 18) -> JoinCourse:
    """One stream that is not stored, three tables and two Python filters, in any order; which table drops most depends on
    the kind of the row, and changes halfway."""
    random = np.random.default_rng(3)
    sizes = [rows] * rounds if isinstance(rows, int) else list(rows)
    tables = {
        name: pa.table({"k": np.arange(size), "x": random.integers(0, 9, size)}, schema=TABLE.schema)
        for name, size in (("t", 60), ("u", 60), ("v", 2_000))
    }
    made: list[Round] = []
    for number, size in enumerate(sizes):
        kind = random.choice(KINDS, size)
        wide = np.where((kind + (number >= len(sizes) // 2)) % 2 == 0, 600, 70)
        columns = {
            "ts": np.full(size, number * SECOND), "n": random.integers(0, 2_600, size),
            "k": (random.random(size) * wide).astype(np.int64), "j": (random.random(size) * (670 - wide)).astype(np.int64),
            "kind": kind,
        }  # fmt: skip
        made.append({"s": pa.table(columns, schema=STREAM.schema)})
    return JoinCourse(LOOKUPS, {"s": STREAM, **dict.fromkeys("tuv", TABLE)}, made, tables, {"most": most, "some": some})


def pair(rows: int | Sequence[int] = 60, rounds: int = 8) -> JoinCourse:
    """Two streams: nothing to choose."""
    return JoinCourse(PAIR, dict.fromkeys("ab", STREAM), _rounds("ab", rows, rounds, (30, 60)))


def product(rows: int | Sequence[int] = 6, rounds: int = 6) -> JoinCourse:
    """A pair of streams that nothing connects with the third: a product with it."""
    return JoinCourse(PRODUCT, dict.fromkeys("abc", STREAM), _rounds("abc", rows, rounds, (4, 8)))


def _rounds(streams: str, rows: int | Sequence[int], rounds: int, keys: tuple[int, int]) -> list[Round]:
    """Rounds of batches. The last stream has `keys[1]` keys and the others `keys[0]`; halfway they change places."""
    random = np.random.default_rng([len(streams), rounds, *keys])
    sizes = [rows] * rounds if isinstance(rows, int) else list(rows)
    made: list[Round] = []
    for number, size in enumerate(sizes):
        few, many = keys if number < len(sizes) // 2 else keys[::-1]
        batches = {}
        for name in streams:
            kind = random.choice(KINDS, size)
            columns = {
                "ts": number * SECOND + np.arange(size) * (SECOND - 1) // max(size, 1), "n": number * size + np.arange(size),
                "k": random.integers(0, many if name == streams[-1] else few, size) + kind % 2,
                "j": random.integers(0, few, size), "kind": kind,
            }  # fmt: skip
            batches[name] = pa.table(columns, schema=STREAM.schema)
        made.append(batches)
    return made
