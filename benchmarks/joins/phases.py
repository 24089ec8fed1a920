"""One phase beside two: a star of four look-ups, by the share of keys that are found and by matches for each.

Run `python -m benchmarks.joins.phases`. Work is counted (buckets looked up and candidates examined, with profiling) and
repeats exactly; time is the process' own, the median of `ROUNDS` runs that take turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from time import process_time

import numpy as np
import pyarrow as pa

from thalweg.engine.block import BlockEngine
from thalweg.language.bind import bind
from thalweg.language.query import Source

POLICIES = ("written", "agreedy", "twophase")
KEYS, ROWS, BATCHES, ROUNDS = 10_000, 4_000, 6, 3
COLUMNS = ("a", "b", "c", "d")
TEXT = "SELECT s.ts AS ts FROM s [NOW], ta, tb, tc, td WHERE s.a = ta.p AND s.b = tb.p AND s.c = tc.p AND s.d = td.p"
STREAM = Source(pa.schema([("ts", pa.int64()), *((c, pa.int64()) for c in COLUMNS)]), "ts", "ms")
POINTS: Sequence[tuple[str, tuple[float, ...], tuple[int, ...]]] = (
    ("all keys found, 1 match", (1.0, 1.0, 1.0, 1.0), (1, 1, 1, 1)),
    ("half of the keys found, 1 match", (0.5, 0.5, 0.5, 0.5), (1, 1, 1, 1)),
    ("half found, 2 matches", (0.5, 0.5, 0.5, 0.5), (2, 2, 2, 2)),
    ("half found, 4 matches", (0.5, 0.5, 0.5, 0.5), (4, 4, 4, 4)),
    ("the last drops nine in ten, the others none", (1.0, 1.0, 1.0, 0.1), (1, 1, 1, 1)),
    ("the same, 8 matches in the first two", (1.0, 1.0, 1.0, 0.1), (8, 8, 1, 1)),
    ("the last two drop half, 8 matches in them", (1.0, 1.0, 0.5, 0.5), (1, 1, 8, 8)),
)


def run(policy: str, shares: Sequence[float], copies: Sequence[int]) -> tuple[float, float, int]:
    """Work and microseconds per row, and results."""
    tables = {
        f"t{c}": pa.table({"p": np.repeat(np.arange(int(KEYS * share)), n)})
        for c, share, n in zip(COLUMNS, shares, copies, strict=True)
    }
    query = bind(TEXT, {"s": STREAM, **{name: Source(t.schema) for name, t in tables.items()}})
    engine, random, found, spent = BlockEngine(query, policy=policy, tables=tables), np.random.default_rng(1), 0, 0.0
    for n in range(BATCHES):
        keys = dict(zip(COLUMNS, random.integers(0, KEYS, (4, ROWS)), strict=True))
        data = pa.table({"ts": np.arange(n * ROWS, (n + 1) * ROWS)} | keys)
        began = process_time()
        found += engine.push("s", data).num_rows
        spent += process_time() - began
    met = engine.stats()["inputs"]["s"]
    return (met["work"] + met["profiling work"]) / (ROWS * BATCHES), 1e6 * spent / (ROWS * BATCHES), found


def main() -> None:
    print(
        "| | results per row |",
        " | ".join(f"{p}: work" for p in POLICIES),
        "|",
        " | ".join(f"{p}: µs" for p in POLICIES),
        "|",
    )
    print("|---|---:|" + "---:|" * (2 * len(POLICIES)))
    for name, shares, copies in POINTS:
        rounds = [{p: run(p, shares, copies) for p in POLICIES} for _ in range(ROUNDS)]
        assert len({results for found in rounds for _, _, results in found.values()}) == 1, "other answers"
        work = [f"{rounds[0][p][0]:.2f}" for p in POLICIES]
        times = [f"{median(found[p][1] for found in rounds):.2f}" for p in POLICIES]
        print(
            f"| {name} | {rounds[0]['written'][2] / (ROWS * BATCHES):.2f} |",
            " | ".join(work),
            "|",
            " | ".join(times),
            "|",
            flush=True,
        )


if __name__ == "__main__":
    main()
