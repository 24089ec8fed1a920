"""A fixed set of join queries with the same question put to DuckDB, and small streams to ask them of.

The streams come out of order within their lateness; a last file far in the future lets everything that waits come out.
"""

from __future__ import annotations

import os
import random
import signal
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

EPOCH = datetime(2024, 3, 1, tzinfo=UTC)
LATENESS = "3 seconds"
STREAMS = ("s1", "s2", "s3", "s4")
SCHEMA = pa.schema(
    [("id", pa.int64()), ("ts", pa.timestamp("us", "UTC")), ("k", pa.int64()), ("j", pa.int32()), ("w", pa.string()),
     ("m", pa.decimal128(12, 2)), ("v", pa.float64())]
)  # fmt: skip
DDL = "id long, ts timestamp, k long, j int, w string, m decimal(12,2), v double"
NAMES = pa.table(
    {"k": pa.array([0, 1, 2, 3, 3, None], pa.int64()), "name": ["zero", "one", "two", "three", "drei", "none"]}
)


def odd(v: float | None) -> bool:
    """A Python predicate for WHERE."""
    return v is not None and int(v) % 2 == 1


@dataclass(frozen=True)
class Shape:
    """One question in both languages. `ours` selects ids, `theirs` the same over tables of the same names."""

    ours: str
    theirs: str
    streams: tuple[str, ...]
    table: bool = False


def _within(seconds: dict[str, float]) -> str:
    newest = f"greatest({', '.join(f'{a}.ts' for a in seconds)})"
    return " AND ".join(f"epoch_ms({newest}) - epoch_ms({a}.ts) <= {s * 1000:g}" for a, s in seconds.items())


def _clique(aliases: str) -> str:
    pairs = [(a, b) for i, a in enumerate(aliases) for b in aliases[i + 1 :]]
    columns = ["k", "j", "w"]
    return " AND ".join(f"{a}.{columns[n % 3]} = {b}.{columns[n % 3]}" for n, (a, b) in enumerate(pairs))


SHAPES = {
    "two streams": Shape(
        "SELECT a.id x, b.id y FROM s1 [RANGE 5 SECONDS] a, s2 [RANGE 2 SECONDS] b WHERE a.k = b.k",
        f"SELECT a.id, b.id FROM s1 a, s2 b WHERE a.k = b.k AND {_within({'a': 5, 'b': 2})}",
        ("s1", "s2"),
    ),
    "strings, a filter, a residual": Shape(
        "SELECT a.id x, b.id y FROM s1 a JOIN s2 b ON a.w = b.w WHERE a.v < b.v AND odd(a.v) AND b.j > 1 WINDOW 4 SECONDS",
        "SELECT a.id, b.id FROM s1 a, s2 b WHERE a.w = b.w AND a.v < b.v AND a.v::INT % 2 = 1 AND b.j > 1 AND "
        + _within({"a": 4, "b": 4}),
        ("s1", "s2"),
    ),
    "a chain over decimals and words": Shape(
        "SELECT a.id x, b.id y, c.id z FROM s1 a, s2 b, s3 c WHERE a.m = b.m AND b.w = c.w WINDOW 3 SECONDS",
        "SELECT a.id, b.id, c.id FROM s1 a, s2 b, s3 c WHERE a.m = b.m AND b.w = c.w AND " + _within({"a": 3, "b": 3, "c": 3}),
        ("s1", "s2", "s3"),
    ),
    "a clique of four": Shape(
        f"SELECT a.id x, b.id y, c.id z, d.id u FROM s1 a, s2 b, s3 c, s4 d WHERE {_clique('abcd')} WINDOW 8 SECONDS",
        f"SELECT a.id, b.id, c.id, d.id FROM s1 a, s2 b, s3 c, s4 d WHERE {_clique('abcd')} AND "
        + _within(dict.fromkeys("abcd", 8)),
        STREAMS,
    ),
    "a star with a table": Shape(
        "SELECT a.id x, b.id y, upper(t.name) n FROM s1 [RANGE 4 SECONDS] a, s2 [RANGE 4 SECONDS] b, names t "
        "WHERE a.k = b.k AND b.j = t.k AND t.name <> 'two'",
        "SELECT a.id, b.id, upper(t.name) FROM s1 a, s2 b, names t WHERE a.k = b.k AND b.j = t.k AND t.name <> 'two' AND "
        + _within({"a": 4, "b": 4}),
        ("s1", "s2"),
        table=True,
    ),
    "one stream and a table": Shape(
        "SELECT a.id x, t.name n FROM s1 [NOW] a, names t WHERE a.j = t.k AND odd(a.v)",
        "SELECT a.id, t.name FROM s1 a, names t WHERE a.j = t.k AND a.v::INT % 2 = 1",
        ("s1",),
        table=True,
    ),
    "one stream and a table twice": Shape(
        "SELECT a.id x, t.name n, u.name m FROM s1 [NOW] a, names t, names u WHERE a.j = t.k AND a.k = u.k",
        "SELECT a.id, t.name, u.name FROM s1 a, names t, names u WHERE a.j = t.k AND a.k = u.k",
        ("s1",),
        table=True,
    ),
    "a stream with itself": Shape(
        "SELECT a.id x, b.id y FROM s1 [RANGE 2 SECONDS] a, s1 [RANGE 2 SECONDS] b WHERE a.k = b.j AND a.id <> b.id",
        "SELECT a.id, b.id FROM s1 a, s1 b WHERE a.k = b.j AND a.id <> b.id AND " + _within({"a": 2, "b": 2}),
        ("s1",),
    ),
    "the last rows": Shape(
        "SELECT a.id x, b.id y FROM s1 [ROWS 5] a, s2 [RANGE 2 SECONDS] b WHERE a.k = b.k",
        """SELECT a.id, b.id FROM s1 a, s2 b WHERE a.k = b.k AND epoch_ms(greatest(a.ts, b.ts)) - epoch_ms(b.ts) <= 2000
           AND (SELECT count(*) FROM s1 o WHERE o.ts <= greatest(a.ts, b.ts) AND (o.ts, o.id) > (a.ts, a.id)) < 5""",
        ("s1", "s2"),
    ),
    "the last rows of each key": Shape(
        "SELECT a.id x, b.id y FROM s1 [PARTITION BY k ROWS 2] a, s2 [RANGE 2 SECONDS] b WHERE a.k = b.k",
        """SELECT a.id, b.id FROM s1 a, s2 b WHERE a.k = b.k AND epoch_ms(greatest(a.ts, b.ts)) - epoch_ms(b.ts) <= 2000
           AND (SELECT count(*) FROM s1 o WHERE o.k = a.k AND o.ts <= greatest(a.ts, b.ts) AND (o.ts, o.id) > (a.ts, a.id)) < 2""",
        ("s1", "s2"),
    ),
}  # fmt: skip


def rows(stream: str, count: int = 400, seconds: float = 40.0) -> list[tuple[Any, ...]]:
    """Rows of a stream in order of time; no two of one stream share a time, so that row windows have one order."""
    draw = random.Random(f"{stream}-{count}")
    times = sorted(draw.sample(range(int(seconds * 1000)), count))
    out = []
    for i, t in enumerate(times):
        out.append(
            (i, EPOCH + timedelta(milliseconds=t), None if draw.random() < 0.05 else draw.randint(0, 7),
             draw.randint(0, 4), None if draw.random() < 0.05 else draw.choice(["red", "green", "blue", "grey"]),
             Decimal(draw.randint(0, 9)) / 4, float(draw.randint(0, 20)))
        )  # fmt: skip
    return out


def table(stream: str, **size: Any) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, r, strict=True)) for r in rows(stream, **size)], SCHEMA)


def write(folder: Path, files: int = 4, **size: Any) -> None:
    """The streams as files, out of order by up to two seconds, and one last row far ahead with no keys."""
    for stream in STREAMS:
        draw = random.Random(f"order of {stream}")
        ordered = sorted(rows(stream, **size), key=lambda r: r[1] + timedelta(seconds=draw.uniform(0, 2)))
        (folder / stream).mkdir(parents=True)
        per = -(-len(ordered) // files)
        parts = [ordered[i : i + per] for i in range(0, len(ordered), per)]
        parts.append([(10**6, EPOCH + timedelta(days=1), None, None, None, None, None)])
        for n, part in enumerate(parts):
            lines = [dict(zip(SCHEMA.names, r, strict=True)) for r in part]
            path = folder / stream / f"part-{n:03}.parquet"
            pq.write_table(pa.Table.from_pylist(lines, SCHEMA), path)
            os.utime(path, (n + 1, n + 1))  # Spark takes files by age; of one moment they would come in any order


def answer(shape: Shape, **size: Any) -> list[tuple[Any, ...]]:
    """DuckDB's, sorted, with NULLs last."""
    db = duckdb.connect(config={"threads": 1})
    db.execute("SET TimeZone = 'UTC'")
    for stream in STREAMS:
        db.register(stream, table(stream, **size))
    db.register("names", NAMES)
    return sorted(
        db.execute(shape.theirs).fetchall(), key=lambda r: [(v is None, v if v is not None else 0) for v in r]
    )


def troubled(folder: str) -> Any:
    """A predicate over two inputs, so that it runs in cells, which makes one task fail and one worker die, once each."""

    def trouble(x: int, y: int) -> bool:
        failed, died = Path(folder) / "failed", Path(folder) / "died"
        if x > 60 and not failed.exists():
            failed.touch()
            raise RuntimeError("a task that fails once")
        if x > 200 and not died.exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return True

    return trouble


def in_trouble(text: str) -> str:
    """A query with the condition `trouble` of `troubled`: between two inputs, or on the only one.

    >>> in_trouble("SELECT a.k FROM s1 a GROUP BY a.k")
    'SELECT a.k FROM s1 a WHERE trouble(a.id, a.id) GROUP BY a.k'
    """
    call = "trouble(a.id, b.id)" if " b " in text else "trouble(a.id, a.id)"
    for word in ("ON ", "WHERE "):
        if word in text:
            return text.replace(word, f"{word}{call} AND ", 1)
    return text.replace("GROUP BY", f"WHERE {call} GROUP BY", 1)
