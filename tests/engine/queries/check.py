"""Checks random query cases against DuckDB, alone or by the thousand, in one process or several."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context

from tests.engine.queries.oracle import QueryOracle
from tests.engine.queries.shrink import script, shrink
from tests.engine.queries.verdict import verdict

from thalweg.testing.queries import make_query
from thalweg.testing.querycase import QueryCase

WORDS = (
    "LEFT JOIN", "RIGHT JOIN", "FULL OUTER", "SEMI", "ANTI", "NOT EXISTS", "NOT IN", "OR ", "GROUP BY", "HAVING", "DISTINCT",
    "UNION", "UNION ALL", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL", "ISTREAM", "DSTREAM", "RSTREAM", "EVERY",
    "SLIDE", "PARTITION BY", "[ROWS", "[NOW]", "[UNBOUNDED]", "[stay]", "LIMIT", "WITH", "FROM ISTREAM", "FROM DSTREAM",
    "FILTER", "OVER", "RANGE BETWEEN", "ROWS BETWEEN", "window(", "(SELECT max", "(SELECT count", "first(", "last(",
    "collect_list", "array_agg", "collect_set", "approx_count_distinct", "count(DISTINCT", "sum(DISTINCT", "avg(", "stddev",
    "var_samp", "count_if", "bool_and", "spread(", "upper(", "CASE",
)  # fmt: skip
CHUNK = 50
"""Cases that a process takes at once."""


@dataclass
class Tally:
    """What a run of cases has looked at."""

    cases: int = 0
    by_kind: dict[str, int] = field(default_factory=dict)
    by_word: dict[str, int] = field(default_factory=dict)
    """Cases whose text has a construct."""

    def __str__(self) -> str:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(self.by_kind.items()))
        words = ", ".join(f"{count:,} {word}" for word, count in sorted(self.by_word.items()))
        return f"{self.cases:,} whole queries equal to DuckDB ({kinds}; with {words})"

    def add(self, other: Tally) -> None:
        self.cases += other.cases
        for kind, count in other.by_kind.items():
            self.by_kind[kind] = self.by_kind.get(kind, 0) + count
        for word, count in other.by_word.items():
            self.by_word[word] = self.by_word.get(word, 0) + count


def words_of(text: str) -> list[str]:
    """The constructs of a query, by their words."""
    return [word for word in WORDS if word in text]


class Mismatch(AssertionError):
    """The engine's answer is not the definition's."""


def check(case: QueryCase, oracle: QueryOracle, tally: Tally | None = None) -> None:
    """Raises Mismatch, with a smaller case, where the engine's outcome is wrong."""
    wrong = verdict(case, oracle)
    if wrong is not None:
        small, why = shrink(case, oracle, wrong)
        raise Mismatch(f"seed {case.seed}: {why}\n{script(small)}")
    if tally is not None:
        kind = "static" if case.static else case.stream or "plain"
        tally.add(Tally(1, {kind: 1}, dict.fromkeys(words_of(case.text), 1)))


_oracle: QueryOracle | None = None


def check_seeds(seeds: range) -> Tally:
    """The cases of these seeds, in whatever process this is called."""
    global _oracle
    _oracle = _oracle or QueryOracle()
    tally = Tally()
    for seed in seeds:
        check(make_query(seed), _oracle, tally)
    return tally


def chunks(first: int, cases: int) -> list[range]:
    """The seeds of a run, in parts for processes to take."""
    return [range(s, min(s + CHUNK, first + cases)) for s in range(first, first + cases, CHUNK)]


@contextmanager
def under_way(parts: Sequence[range], processes: int) -> Iterator[dict[range, Future[Tally]]]:
    """The parts of a run, being checked in this many processes."""
    pool = ProcessPoolExecutor(min(processes, len(parts)) or 1, get_context("spawn"))
    try:
        yield {part: pool.submit(check_seeds, part) for part in parts}
    finally:
        pool.shutdown(cancel_futures=True)
