"""Compares many random join cases with DuckDB and prints how many were equal.

    python -m tests.engine.joins --cases 20000 --seed 0
    python -m tests.engine.joins --cases 20000 --policy chaos --caches chaos --caches all

A wrong case ends the run with status 1, after the smallest case found has been printed as a script.
"""

from __future__ import annotations

import argparse
import os
import sys

from tests.engine.joins.check import Mismatch, Tally, chunks, under_way

from thalweg.testing.joins import CACHES, POLICIES


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.engine.joins", description=__doc__)
    parser.add_argument("--cases", type=int, default=20_000, help="how many cases; default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first case; default: %(default)s")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="default: one per core")
    parser.add_argument("--policy", action="append", help="only cases with this policy; may be given more than once")
    parser.add_argument("--caches", action="append", help="only with these caches: chaos, all, off")
    chosen = parser.parse_args()
    tally, seed = Tally(), chosen.seed
    while tally.cases < chosen.cases:
        # Cases that are too large to compare do not count: more seeds follow for them.
        parts = chunks(seed, chosen.cases - tally.cases)
        with under_way(parts, chosen.processes, chosen.policy or POLICIES, chosen.caches or CACHES) as futures:
            for part, future in futures.items():
                try:
                    tally.add(future.result())
                except Mismatch as wrong:
                    print(wrong)
                    return 1
                seed = part.stop
                if sys.stderr.isatty():
                    print(f"\r{tally.cases:,} of {chosen.cases:,}", end="", file=sys.stderr, flush=True)
    print(f"random joins of the seeds {chosen.seed:,} to {seed - 1:,}: {tally}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
