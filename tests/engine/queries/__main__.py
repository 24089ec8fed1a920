"""Compares many random whole queries with DuckDB and prints how many were equal.

    python -m tests.engine.queries --cases 30000 --seed 0

A wrong case ends the run with status 1, after the smallest case found has been printed.
"""

from __future__ import annotations

import argparse
import os
import sys

from tests.engine.queries.check import Mismatch, Tally, chunks, under_way

START, END = ("\r", "") if sys.stderr.isatty() else ("", "\n")  # in a log, each count has its line


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.engine.queries", description=__doc__)
    parser.add_argument("--cases", type=int, default=30_000, help="how many cases; default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first case; default: %(default)s")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="default: one per core")
    parser.add_argument("--all", action="store_true", help="go on after a wrong case, and count them")
    chosen = parser.parse_args()
    tally, wrong = Tally(), 0
    with under_way(chunks(chosen.seed, chosen.cases), chosen.processes) as futures:
        for future in futures.values():
            try:
                tally.add(future.result())
            except Mismatch as told:
                print(told, flush=True)
                wrong += 1
                if not chosen.all:
                    return 1
            count = f"{tally.cases:,} of {chosen.cases:,}, {wrong:,} chunks wrong"
            print(START + count, end=END, file=sys.stderr, flush=True)
    print(f"seeds {chosen.seed:,} to {chosen.seed + chosen.cases - 1:,}: {tally}; {wrong:,} chunks wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
