"""Whether an engine's outcome of a query case is the definition's.

Results are compared as rows with their times. Of a relation, instants are sampled: the changes up to an instant, added
up, are the relation there; ISTREAM and DSTREAM give the bag differences of an instant and the one before; RSTREAM gives
the relation at every multiple. Every row of a relation comes with the step whose frontier passes its instant.
"""

from __future__ import annotations

import math
import random
import traceback
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
from tests.engine.queries.oracle import NEVER, QueryOracle, at, history, instants

from thalweg.testing.joincase import LONG_AGO
from thalweg.testing.querycase import From, QueryCase, Select, nodes
from thalweg.testing.queryrun import QueryOutcome, run_query

SAMPLES = 3
"""Instants that are looked at."""
Bag = Counter[tuple[Any, ...]]


def verdict(case: QueryCase, oracle: QueryOracle) -> str | None:
    """What is wrong with the engine's outcome, or None."""
    try:
        outcome = run_query(case)
    except Exception:
        return traceback.format_exc(limit=-5)
    tables = oracle.tables(case)
    late = case.late()
    if late != outcome.late:
        return f"late: expected {late}, found {outcome.late}"
    if case.static:
        return _static(case, outcome, oracle, tables)
    if outcome.kind == "results":
        return _results(case, outcome, oracle, tables)
    return _relation(case, outcome, oracle, tables)


def _static(case: QueryCase, outcome: QueryOutcome, oracle: QueryOracle, tables: dict[str, pa.Table]) -> str | None:
    if any(f.stream for f in nodes(case.query, From)):  # what it emits comes once, though its window lets it go
        wanted = [row[:-3] for row in oracle.ask(history(case.query), tables)]
    else:
        wanted = oracle.ask(at(case, 0), tables)
    if case.limit is None:
        timed = outcome.names[-1] == "t"
        return difference("rows", bag(wanted), bag(row[:-1] if timed else row for row in outcome.rows))
    limit, offset = case.limit
    names = ", ".join(f"{n} NULLS FIRST" for n in outcome.names)
    text = f"SELECT * FROM ({at(case, 0)}) ORDER BY {names} LIMIT {limit} OFFSET {offset}"
    ordered = [plain(r) for r in oracle.ask(text, tables)]
    found = [plain(r) for r in outcome.rows]
    return None if ordered == found else f"sorted rows: expected {ordered}, found {found}"


def _results(case: QueryCase, outcome: QueryOutcome, oracle: QueryOracle, tables: dict[str, pa.Table]) -> str | None:
    wanted = oracle.ask(history(case.query), tables)
    timed = "t" in outcome.names
    times = [(None if abs(r[-1]) >= NEVER else r[-1],) if timed else () for r in wanted]
    return difference("results", bag((*r[:-3], *t) for r, t in zip(wanted, times, strict=True)), bag(outcome.rows))


def _relation(case: QueryCase, outcome: QueryOutcome, oracle: QueryOracle, tables: dict[str, pa.Table]) -> str | None:
    times = _times(outcome)
    if times is None:  # plain rows of a relation that only grows
        end = max(instants(case), default=0) + 10
        return difference("all rows", bag(oracle.ask(at(case, _seen(case, end)), tables)), bag(outcome.rows))
    wrong = _steps(case, outcome, times)
    if wrong is not None:
        return wrong
    known: dict[int, Bag] = {}

    def relation(instant: int) -> Bag:
        seen = _seen(case, instant)
        if seen not in known:
            known[seen] = bag(oracle.ask(at(case, seen), tables))
        return known[seen]

    chosen = random.Random(case.seed)
    all_ = sorted({t for t in times if t is not None} | set(instants(case)))
    for instant in chosen.sample(all_, min(SAMPLES, len(all_))):
        wrong = _instant(case, outcome, times, instant, relation)
        if wrong is not None:
            return wrong
    return None


def _instant(
    case: QueryCase, outcome: QueryOutcome, times: Sequence[int | None], instant: int, relation: Any
) -> str | None:
    before = instant - (case.every or 1) if instant % (case.every or 1) == 0 else instant
    if outcome.kind == "changes":
        total: Bag = Counter()
        for row, time in zip(outcome.rows, times, strict=True):
            if time is None or time <= instant:
                total[plain(row[:-2])] += 1 if row[-2] == "insert" else -1
        return difference(f"at {instant}", relation(instant), Counter({r: n for r, n in total.items() if n}))
    found = bag(r[:-1] for r, time in zip(outcome.rows, times, strict=True) if time == instant)
    if outcome.kind == "istream":
        return difference(f"entering at {instant}", relation(instant) - relation(before), found)
    if outcome.kind == "dstream":
        return difference(f"leaving at {instant}", relation(before) - relation(instant), found)
    ticks = [t for t in times if t is not None]
    if instant % case.every or not ticks or not min(ticks) <= instant <= max(ticks):
        return difference(f"between ticks, at {instant}", Counter(), found)
    return difference(f"alive at {instant}", relation(instant), found)


def _seen(case: QueryCase, instant: int) -> int:
    """The instant at which the relation is looked at."""
    return instant // case.every * case.every if case.every else instant


def _times(outcome: QueryOutcome) -> list[int | None] | None:
    if outcome.kind == "changes":
        return [row[-1] for row in outcome.rows]
    return [row[-1] for row in outcome.rows] if outcome.names[-1] == "t" else None


def _steps(case: QueryCase, outcome: QueryOutcome, times: Sequence[int | None]) -> str | None:
    """Whether rows come as soon as the frontier has passed them, and not before. What counts results of an outer join
    has to wait for them."""
    counts = any(s.hop is not None or s.frames for s in nodes(case.query, Select))
    streams = {f.source for f in nodes(case.query, From) if f.source and f.window is not None}
    frontiers = [min(marks[s] for s in streams) for marks in case.marks()]
    frontiers.append(NEVER)
    for row, step, time in zip(outcome.rows, outcome.steps, times, strict=True):
        before = frontiers[step - 1] if step else LONG_AGO
        if time is not None and not ((counts or before <= time) and time < frontiers[step]):
            return f"steps: {row} came with step {step}, where the frontier went from {before} to {frontiers[step]}"
    return None


def difference(what: str, wanted: Bag, found: Bag) -> str | None:
    if wanted == found:
        return None
    missing, surplus = wanted - found, found - wanted
    return (
        f"{what}: {missing.total()} missing, such as {list(missing.items())[:3]}; "
        f"{surplus.total()} too many, such as {list(surplus.items())[:3]}"
    )


def bag(rows: Iterable[Sequence[Any]]) -> Bag:
    return Counter(map(plain, rows))


def plain(row: Sequence[Any]) -> tuple[Any, ...]:
    """Values that compare as SQL compares them: NaN equals itself, zeros are equal, sums in another order are."""
    return tuple(_value(v) for v in row)


def _value(value: Any) -> Any:
    if isinstance(value, list):  # in any order; tests/relate/test_groups.py looks at the order
        return tuple(sorted((_value(v) for v in value), key=repr))
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else round(value, 9) + 0.0
    return value
