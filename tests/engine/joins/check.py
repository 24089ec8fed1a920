"""Checks random join cases against DuckDB, alone or by the thousand, in one process or several."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context

from tests.engine.joins.oracle import DuckOracle, TooLarge
from tests.engine.joins.script import script
from tests.engine.joins.shrink import shrink
from tests.engine.joins.verdict import judged

from thalweg.testing.joincase import JoinCase
from thalweg.testing.joinrun import MakeTuner
from thalweg.testing.joins import CACHES, POLICIES, make_case

CHUNK = 50
"""Cases that a process takes at once."""


@dataclass
class Tally:
    """What a run of cases has looked at."""

    cases: int = 0
    results: int = 0
    empty: int = 0
    skipped: int = 0
    """Cases with more results than are looked at."""
    cached: int = 0
    """Cases in which rows were looked up in caches."""

    def __str__(self) -> str:
        return (
            f"{self.cases:,} cases equal to DuckDB, {self.results:,} results, {self.empty:,} cases without any, "
            f"{self.cached:,} that looked rows up in caches, "
            f"{self.skipped:,} skipped as too large"
        )

    def add(self, other: Tally) -> None:
        self.cases += other.cases
        self.results += other.results
        self.empty += other.empty
        self.skipped += other.skipped
        self.cached += other.cached


class Mismatch(AssertionError):
    """The engine's answer is not the definition's."""


def check(case: JoinCase, oracle: DuckOracle, tally: Tally | None = None, tuner: MakeTuner | None = None) -> int:
    """The number of results; raises Mismatch, with a smaller case, where the engine's outcome is wrong."""
    try:
        answer = oracle.answer(case)
    except TooLarge:
        if tally is not None:
            tally.skipped += 1
        return 0
    wrong, looked_up = judged(case, answer, tuner)
    if wrong is not None:
        small, why = shrink(case, oracle, wrong, tuner)
        raise Mismatch(f"seed {case.seed}: {why}\n{script(small, oracle)}")
    if tally is not None:
        tally.cases += 1
        tally.results += len(answer)
        tally.empty += not answer
        tally.cached += looked_up > 0
    return len(answer)


_oracle: DuckOracle | None = None


def check_seeds(seeds: range, policies: Sequence[str] = POLICIES, caches: Sequence[str] = CACHES) -> Tally:
    """The cases of these seeds, in whatever process this is called."""
    global _oracle
    _oracle = _oracle or DuckOracle()
    tally = Tally()
    for seed in seeds:
        check(make_case(seed, policies=policies, caches=caches), _oracle, tally)
    return tally


def chunks(first: int, cases: int) -> list[range]:
    """The seeds of a run, in parts for processes to take."""
    return [range(s, min(s + CHUNK, first + cases)) for s in range(first, first + cases, CHUNK)]


@contextmanager
def under_way(
    parts: Sequence[range], processes: int, policies: Sequence[str] = POLICIES, caches: Sequence[str] = CACHES
) -> Iterator[dict[range, Future[Tally]]]:
    """The parts of a run, being checked in this many processes."""
    pool = ProcessPoolExecutor(min(processes, len(parts)) or 1, get_context("spawn"))
    try:
        yield {part: pool.submit(check_seeds, part, policies, caches) for part in parts}
    finally:
        pool.shutdown(cancel_futures=True)
