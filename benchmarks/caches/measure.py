"""Runs a workload with caches and without, in turns, and takes processor time."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from time import process_time

import thalweg as tw
from benchmarks.caches.workloads import Workload


@dataclass(frozen=True)
class Point:
    """Seconds of each contender in each round, and what came out."""

    workload: Workload
    seconds: dict[str, list[float]]
    results: int
    caches: str
    bytes: int

    def rate(self, name: str) -> float:
        """Rows per second of the best round."""
        return self.workload.rows / min(self.seconds[name])

    def ratio(self, name: str, other: str = "off") -> float:
        """How many times faster: the median of ratios within a round."""
        pairs = zip(self.seconds[other], self.seconds[name], strict=True)
        return statistics.median(a / b for a, b in pairs)


def run(w: Workload, caches: str, limit: int | None = None, policy: str = "auto") -> tuple[float, int, tw.Engine]:
    engine = tw.Engine(
        w.text, w.sources, policy=policy, caches=caches, cache_bytes=limit, tables=w.tables, functions=w.functions
    )
    began, results = process_time(), 0
    for name, rows in w.batches():
        if name:
            results += engine.push(name, rows).num_rows
        else:
            engine.advance()
    results += engine.close().num_rows
    return process_time() - began, results, engine


def measure(w: Workload, rounds: int, names: tuple[str, ...] = ("off", "auto", "all")) -> Point:
    run(w, "off")  # what is only done the first time does not count
    seconds: dict[str, list[float]] = {name: [] for name in names}
    found, caches, size = set(), "", 0
    for k in range(rounds):
        for name in names if k % 2 == 0 else reversed(names):
            spent, results, engine = run(w, name)
            seconds[name].append(spent)
            found.add(results)
            if name == "auto":
                caching = engine.blocks[0].flow.caching
                if caching is not None:
                    caches = ", ".join(sorted(caching.placed)) or "none"
                    size = sum(c.store.nbytes for c in caching.caches.caches.values())
    assert len(found) == 1, f"answers differ: {found}"
    return Point(w, seconds, found.pop(), caches, size)


def sweep(w: Workload, limits: list[int | None], rounds: int) -> Iterator[tuple[int | None, float, float]]:
    """By budget in bytes: how many times faster than without caches, and the share of rows that missed."""
    for limit in limits:
        ratios, misses = [], 0.0
        for _ in range(rounds):
            plain, answer, _ = run(w, "off")
            spent, results, engine = run(w, "auto", limit)
            assert results == answer
            ratios.append(plain / spent)
            caching = engine.blocks[0].flow.caching
            met = [] if caching is None else [c.met for c in caching.caches.caches.values()]
            misses = sum(m.misses for m in met) / max(sum(m.probes for m in met), 1)
        yield limit, statistics.median(ratios), misses
