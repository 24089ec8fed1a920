"""DuckDB on the same rows in the same run: one thread, md5 nested as in FN, written in the worst and in the best order.

DuckDB reorders conjuncts by elapsed time while it scans, with one order for all rows. Its work is derived from its CPU
time: the price of one md5 is measured on queries whose work is known (all rows hash once; all rows hash the most
expensive predicate), so its work fits in the same column as ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter, process_time

import duckdb

from benchmarks.filters.engine import WrongAnswer
from benchmarks.filters.hashed import Hashed
from benchmarks.filters.workload import Workload


@dataclass(frozen=True)
class DuckRun:
    """CPU and wall seconds of one query, and the md5 calls per row that its CPU time corresponds to."""

    written: str
    cpu: float
    wall: float
    work_per_row: float


def condition(predicate: Hashed, column: str) -> str:
    """The predicate as SQL.

    >>> condition(Hashed("nested", 2), "x1")
    "md5(md5(cast(x1 as varchar))) < '8'"
    """
    if predicate.kind != "nested":
        raise ValueError("only nested md5: DuckDB keeps the written order where a predicate can throw, as repeat() can")
    return "md5(" * predicate.times + f"cast({column} as varchar)" + ")" * predicate.times + " < '8'"


def race(workload: Workload, orders: Mapping[str, Sequence[int]], repeats: int = 3) -> tuple[list[DuckRun], float]:
    """Run the query in each written order, interleaved, and take medians. Also measure the seconds of one md5."""
    source = f"'{workload.parquet()}'"
    dearest = max(range(len(workload.predicates)), key=lambda j: workload.predicates[j].times)
    times = workload.predicates[dearest].times
    column = f"x{dearest + 1}"
    with duckdb.connect() as connection:
        connection.execute("set threads = 1")
        connection.execute(f"create temp table input as from {source}")

        def ask(where: str) -> tuple[float, float, tuple[int, int]]:
            cpu, wall = process_time(), perf_counter()
            answer = connection.execute(f"select count(*), sum(ts) from input where {where}").fetchone()
            assert answer is not None
            return process_time() - cpu, perf_counter() - wall, (int(answer[0]), int(answer[1] or 0))

        took: dict[str, list[tuple[float, float]]] = {name: [] for name in orders}
        known: list[tuple[float, float]] = []
        for _ in range(repeats):
            once = ask(condition(Hashed("nested", 1), column))[0]
            many = ask(condition(workload.predicates[dearest], column))[0]
            known.append((once, many))
            for name, order in orders.items():
                cpu, wall, answer = ask(" and ".join(condition(workload.predicates[j], f"x{j + 1}") for j in order))
                if answer != workload.answer:
                    raise WrongAnswer(f"DuckDB gave {answer} where {workload.answer} was expected")
                took[name].append((cpu, wall))
    once, many = (_median([k[i] for k in known]) for i in range(2))
    per_md5 = (many - once) / ((times - 1) * len(workload))
    scan = once - per_md5 * len(workload)
    runs = []
    for name, seconds in took.items():
        cpu, wall = (_median([s[i] for s in seconds]) for i in range(2))
        runs.append(DuckRun(name, cpu, wall, (cpu - scan) / per_md5 / len(workload)))
    return runs, per_md5


def _median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]
