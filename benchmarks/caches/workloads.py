"""Workloads for caches: streams of rows by time, a query, and what is varied.

All sizes are in microseconds of the streams' own time; a batch is `BATCH` of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import thalweg as tw

SPAN = 300_000
BATCH = 10_000
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Workload:
    """A query and its rows; `tables` are loaded before."""

    group: str
    name: str
    text: str
    streams: Mapping[str, Mapping[str, Ints]]
    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return sum(len(s["ts"]) for s in self.streams.values())

    @property
    def sources(self) -> dict[str, tw.Source]:
        found = {
            name: tw.Source(pa.schema([(c, pa.int64()) for c in columns]), time="ts", unit="us")
            for name, columns in self.streams.items()
        }
        return {**found, **{name: tw.Source(t.schema) for name, t in self.tables.items()}}

    def batches(self) -> Iterator[tuple[str, pa.Table]]:
        for since in range(0, SPAN, BATCH):
            for name, columns in self.streams.items():
                low, high = np.searchsorted(columns["ts"], [since, since + BATCH])
                if high > low:
                    yield name, pa.table({c: v[low:high] for c, v in columns.items()})
            yield "", pa.table({})


def stream(random: np.random.Generator, rate: float, **domains: int) -> dict[str, Ints]:
    """Rows at this rate per microsecond, each column drawn from as many values."""
    rows = int(rate * SPAN)
    return {
        "ts": np.sort(random.integers(0, SPAN, rows)),
        **{c: random.integers(0, d, rows) for c, d in domains.items()},
    }


def cycled(rate: float, repeats: int, *columns: str) -> dict[str, Ints]:
    """Values in the same order in every stream, each so many times in a row: the thesis' default data (5.8.3)."""
    rows = int(rate * repeats * SPAN)
    values = np.arange(rows) // repeats
    return {"ts": (np.arange(rows) / (rate * repeats)).astype(np.int64), **dict.fromkeys(columns, values)}


def fact(random: np.random.Generator, fan: int, share: float) -> Workload:
    """A fact stream with two slow streams on repeating keys: s has `fan` rows a key, t lets a share of them through."""
    window, rate = 100_000, 0.02
    held = int(rate * window)
    streams = {
        "f": stream(random, 1.0, k=held // fan, v=9),
        "s": stream(random, rate, k=held // fan, j=int(held / share)),
        "t": stream(random, rate, j=int(held / share)),
    }
    text = """SELECT f.v, s.j FROM f [RANGE 1 MILLISECONDS] AS f, s [RANGE 100 MILLISECONDS] AS s,
        t [RANGE 100 MILLISECONDS] AS t WHERE f.k = s.k AND s.j = t.j"""
    return Workload("a fact stream and two slow ones", f"{fan} rows a key, {share:.0%} of them pass", text, streams)


def repeating(repeats: int) -> Workload:
    """R(A), S(A, B), T(B): every value once in R and S, r times in T."""
    streams = {"r": cycled(0.05, 1, "a"), "s": cycled(0.05, 1, "a", "b"), "t": cycled(0.05, repeats, "b")}
    text = """SELECT r.a, t.b FROM r [RANGE 20 MILLISECONDS] AS r, s [RANGE 20 MILLISECONDS] AS s,
        t [RANGE 20 MILLISECONDS] AS t WHERE r.a = s.a AND s.b = t.b"""
    return Workload("values that repeat", f"r = {repeats}", text, streams)


def bands(random: np.random.Generator, size: int) -> Workload:
    """A stream and a table of ranges: no index serves the comparison, every row is compared with every range."""
    lows = np.arange(size) * 10
    table = pa.table({"lo": lows, "hi": lows + 10, "price": random.integers(0, 99, size)})
    text = "SELECT f.v, b.price FROM f [NOW] AS f, b WHERE f.x >= b.lo AND f.x < b.hi"
    streams = {"f": stream(random, 0.1, x=10 * size, v=9)}
    return Workload("a range join without an index", f"{size} ranges", text, streams, {"b": table})


def judged(random: np.random.Generator, distinct: int) -> Workload:
    """An expensive Python predicate between a stream and a table."""

    def alike(x: int, y: int) -> bool:
        return sum(int(a == b) for a, b in zip(f"{x:08d}", f"{y:08d}", strict=True)) >= 6

    table = pa.table({"y": random.integers(0, 1000, 20)})
    streams = {"f": stream(random, 0.01, x=distinct, v=9)}
    text = "SELECT f.v, b.y FROM f [NOW] AS f, b WHERE alike(f.x, b.y)"
    name = f"{distinct:,} arguments"
    return Workload("an expensive predicate between inputs", name, text, streams, {"b": table}, {"alike": alike})


def many(random: np.random.Generator, inputs: int) -> Workload:
    """A fast stream and others on one key: half of them have each value once, the others five times."""
    window, keys = 50_000, 400
    streams = {"s0": stream(random, 1.0, k=keys)}
    for i in range(1, inputs):
        each = 1 if i <= inputs // 2 else 3
        streams[f"s{i}"] = stream(random, 0.35 * keys * each / window, k=keys)
    windows = ", ".join(f"s{i} [RANGE {1 if i == 0 else 50} MILLISECONDS] AS s{i}" for i in range(inputs))
    joined = " AND ".join(f"s{i}.k = s{i + 1}.k" for i in range(inputs - 1))
    return Workload("3 to 8 streams", f"{inputs} streams", f"SELECT s0.k FROM {windows} WHERE {joined}", streams)


def pairs(random: np.random.Generator) -> Workload:
    """Two streams: there is nothing to cache."""
    streams = {"a": stream(random, 0.6, k=20_000, v=9), "b": stream(random, 0.6, k=20_000)}
    text = "SELECT a.v FROM a [RANGE 20 MILLISECONDS] AS a, b [RANGE 20 MILLISECONDS] AS b WHERE a.k = b.k"
    return Workload("where caching can't pay", "two streams", text, streams)


def unique(random: np.random.Generator) -> Workload:
    """Three streams on keys that do not come back."""
    streams = {n: {"ts": t["ts"], "k": random.permutation(len(t["ts"]))} for n in "abc" if (t := stream(random, 0.5))}
    windows = ", ".join(f"{n} [RANGE 20 MILLISECONDS] AS {n}" for n in "abc")
    return Workload("where caching can't pay", "three streams, keys once each",
                    f"SELECT a.k FROM {windows} WHERE a.k = b.k AND b.k = c.k", streams)  # fmt: skip


def every(seed: int = 0) -> list[Workload]:
    random = np.random.default_rng(seed)
    return [
        *(fact(random, fan, share) for fan, share in ((3, 1.0), (20, 0.05), (100, 0.01))),
        *(repeating(r) for r in (1, 2, 5, 10)),
        *(bands(random, n) for n in (100, 1000)),
        *(judged(random, n) for n in (100, 1000)),
        *(many(random, n) for n in (3, 4, 5, 6, 7, 8)),
        pairs(random), unique(random),
    ]  # fmt: skip
