"""`python -m benchmarks.joins.deltas [--before CHECKOUT]`: what lifetimes cost, and that the plain results don't pay.

Two engines get the same batches in turn, one with a sink of deltas. With a checkout of version 0.1, which knew no
lifetimes, both versions race the hand-written kernel in processes of their own: the ratio of the two must not fall.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.joins.thalweg_runs import BATCH, query_of
from benchmarks.joins.workloads import j
from thalweg import Engine
from thalweg.contract.relation import Closings, Deltas

RACE = """
import time
from benchmarks.joins import handwritten, thalweg_runs
from benchmarks.joins.workloads import j
try:
    from thalweg.optimize.autojoin import AutoJoin as auto
except ImportError:
    auto = "auto"
w, small = j({tuples}), j(3000)
handwritten.run_clique(dict(small.data))
thalweg_runs.feed(small, small.data, auto)
best = [9e9, 9e9]
for _ in range(5):
    for k, run in enumerate((lambda: handwritten.run_clique(dict(w.data)), lambda: thalweg_runs.feed(w, w.data, auto))):
        started = time.process_time()
        run()
        best[k] = min(best[k], time.process_time() - started)
print(best[0] / best[1])
"""


class Counting:
    """A sink that counts."""

    results = 0

    def opened(self, deltas: Deltas) -> None:
        self.results += len(deltas.number)

    def closed(self, closings: Closings) -> None: ...


def side_by_side(tuples: int) -> tuple[float, int]:
    """Processor time with lifetimes as a multiple of that without, and the results."""
    w, sink = j(tuples), Counting()
    engines = [Engine(query_of(w)), Engine(query_of(w), deltas=sink)]
    seconds, found = [0.0, 0.0], [0, 0]
    for turn, start in enumerate(range(0, w.tuples, BATCH)):
        for k in (turn % 2, 1 - turn % 2):
            started = time.process_time()
            for s in w.streams:
                found[k] += engines[k].push(s, w.data[s].slice(start, BATCH)).num_rows
            engines[k].advance(start + BATCH)
            seconds[k] += time.process_time() - started
    assert found[0] == found[1] == sink.results
    return seconds[1] / seconds[0], found[0]


def race(root: Path, tuples: int) -> float:
    """How fast a checkout is, as a share of the hand-written kernel's speed."""
    paths = os.pathsep.join(map(str, (root / "src", root)))
    program = [sys.executable, "-c", RACE.format(tuples=tuples)]
    done = subprocess.run(program, cwd=root, env=os.environ | {"PYTHONPATH": paths}, capture_output=True, check=True)
    return float(done.stdout)


def main(
    before: Annotated[Path | None, typer.Option(help="A checkout of version 0.1 to compare with.")] = None,
    tuples: Annotated[int, typer.Option(help="Rows of each stream.")] = 200_000,
) -> None:
    side_by_side(3_000)
    ratio, results = side_by_side(tuples)
    print(f"with lifetimes: {ratio:.2f} x the time without, {results:,} results")
    if before is not None:
        rounds = [(race(Path.cwd(), tuples), race(before, tuples)) for _ in range(3)]
        now, then = (sorted(r)[1] for r in zip(*rounds, strict=True))
        print(f"plain results: {now:.2f} of the hand-written kernel's speed, {then:.2f} before lifetimes")


if __name__ == "__main__":
    typer.run(main)
