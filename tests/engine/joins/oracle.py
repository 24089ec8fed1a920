"""The exact answer of a join case by DuckDB: the definition written out in SQL, one window content per moment.

For every moment τ at which some tuple has its time, each input's window content is a relation; a result is a choice of
one tuple per input from the contents of the moment that is the newest of their times (thesis 2.1). No index, no order,
no eviction. DuckDB shares Spark's rules that matter here (NaN = NaN, NaN greatest, -0.0 = 0.0, NULL is not true, binary
string order); where it differs is said at `sql`.
"""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa

from thalweg.language.query import Window
from thalweg.testing.joincase import JoinCase
from thalweg.testing.joinpredicates import (
    Among,
    Between,
    Call,
    Compare,
    Constant,
    Missing,
    Not,
    Or,
    Plus,
    Predicate,
    Ref,
    Term,
)

Answer = list[tuple[int, ...]]
"""Results as row numbers, one per input, in the order of the inputs."""

# The functions of thalweg.testing.joinpredicates said again in SQL, NULLs included.
MACROS = {
    "odd(x)": "x % 2 <> 0",
    "absent_or_small(x)": "x IS NULL OR x < 2",
    "brief(x)": "coalesce(length(x) < 2, false)",
    "near(x, y)": "abs(x::HUGEINT - y::HUGEINT) <= 2",
}

# DuckDB finds tables among the variables of whoever asks, which is faster than to register and forget them.
_ASK = compile("db.execute(text).fetchall()", "<tables as variables>", "eval")


class TooLarge(Exception):
    """The case has more results than a test should look at."""


class DuckOracle:
    """One connection, many cases."""

    def __init__(self) -> None:
        # For a few dozen rows, a merge join of ranges costs more to set up than a nested loop to run.
        self.db = duckdb.connect(config={"threads": 1, "nested_loop_join_threshold": 1000})
        for head, body in MACROS.items():
            self.db.execute(f"CREATE MACRO {head} AS ({body})")

    def answer(self, case: JoinCase, most: int | None = None) -> Answer:
        long = any(len(s.rows) > 100 for s in case.sources)
        most = most or (8_000 if long else 1_500)
        arrivals = case.arrivals()
        tables = {}
        for source in case.sources:
            rows = [r for r, _ in arrivals[source.name]] if source.time is not None else range(len(source.rows))
            table = source.table(rows)
            if source.time is not None:
                # Arrow times of several units become one: DuckDB's own cast would do the same, slower to read here.
                table = table.drop_columns([source.time])
                table = table.append_column("micros", pa.array([source.micros(r) for r in rows], pa.int64()))
            tables[source.name] = table.append_column("arrival", pa.array(range(len(rows)), pa.int64()))
        text = shortcut(case) if long else definition(case)
        found: Answer = eval(_ASK, {"db": self.db, "text": f"{text} LIMIT {most + 1}", **tables})
        if len(found) > most:
            raise TooLarge(f"more than {most} results")
        return found


def definition(case: JoinCase) -> str:
    """The SQL of a case."""
    streams = [i for i in case.inputs if i.window is not None]
    parts: list[str] = []
    conditions = [sql(p) for p in case.predicates]
    relations = [i.source + " AS " + i.alias for i in case.inputs if i.window is None]
    if streams:
        names = sorted({i.source for i in streams})
        moments = " UNION ".join(f"SELECT micros AS tau FROM {n}" for n in names)
        if len(names) == 1:
            moments = moments.replace("SELECT", "SELECT DISTINCT")
        parts.append(f"moments AS MATERIALIZED ({moments})")
        for i in streams:
            assert i.window is not None
            parts.append(f"{i.alias}_at AS MATERIALIZED ({content(i.source, i.window)})")
            relations.append(f"{i.alias}_at AS {i.alias}")
        first = streams[0].alias
        conditions += [f"{i.alias}.tau = {first}.tau" for i in streams[1:]]
        conditions.append(f"greatest({', '.join(f'{i.alias}.micros' for i in streams)}) = {first}.tau")
    select = ", ".join(f"{i.alias}.id" for i in case.inputs)
    with_ = f"WITH {', '.join(parts)} " if parts else ""
    where = " AND ".join(f"({c})" for c in conditions) or "true"
    return f"{with_}SELECT {select} FROM {', '.join(relations)} WHERE {where}"


def shortcut(case: JoinCase) -> str:
    """The same answer without a relation per moment, for cases with many of them.

    A tuple leaves a row window at the time of the n-th tuple after it, in the order (time, arrival); it is in the window
    at τ if τ is before that.
    """
    streams = [i for i in case.inputs if i.window is not None]
    tau = f"greatest({', '.join(f'{i.alias}.micros' for i in streams)})"
    conditions = [sql(p) for p in case.predicates]
    relations = []
    for i in case.inputs:
        relation = i.source
        if i.window is not None and i.window.ordered:
            by = f"PARTITION BY {', '.join(i.window.by)} " if i.window.by else ""
            leaves = f"lead(micros, {i.window.rows}) OVER ({by}ORDER BY micros, arrival)"
            relation = f"(SELECT *, coalesce({leaves}, {2**62}) AS leaves FROM {i.source})"
            conditions.append(f"{tau} < {i.alias}.leaves")
        elif i.window is not None and i.window.kind in ("range", "now"):
            conditions.append(f"{tau} - {i.alias}.micros <= {i.window.span}")
        relations.append(f"{relation} AS {i.alias}")
    where = " AND ".join(f"({c})" for c in conditions) or "true"
    return f"SELECT {', '.join(f'{i.alias}.id' for i in case.inputs)} FROM {', '.join(relations)} WHERE {where}"


def content(source: str, window: Window) -> str:
    """What a window holds, for every moment."""
    base = f"SELECT m.tau, x.* FROM moments AS m JOIN {source} AS x ON x.micros <= m.tau"
    newest = "ORDER BY x.micros DESC, x.arrival DESC"
    match window.kind:
        case "range":
            return f"{base} AND x.micros >= m.tau - {window.span}"
        case "now":
            return f"{base} AND x.micros = m.tau"
        case "rows":
            return f"{base} QUALIFY row_number() OVER (PARTITION BY m.tau {newest}) <= {window.rows}"
        case "partition":
            by = ", ".join(f"x.{c}" for c in window.by)
            return f"{base} QUALIFY row_number() OVER (PARTITION BY m.tau, {by} {newest}) <= {window.rows}"
        case "unbounded":
            return base


def sql(part: Predicate | Term) -> str:
    """A predicate in DuckDB's dialect.

    Differences from Spark that this rendering removes: `<=>` is IS NOT DISTINCT FROM; a quote in a string is doubled,
    not escaped; sums of 32-bit integers would raise where Spark widens a literal, so sums are made in HUGEINT.
    """
    match part:
        case Ref(alias, column):
            return f"{alias}.{column}"
        case Constant(value):
            return constant(value)
        case Plus(a, b):
            return f"({sql(a)}::HUGEINT + {sql(b)}::HUGEINT)"
        case Compare(a, "<=>", b):
            return f"({sql(a)} IS NOT DISTINCT FROM {sql(b)})"
        case Compare(a, op, b):
            return f"({sql(a)} {op} {sql(b)})"
        case Between(a, low, high):
            return f"({sql(a)} >= {sql(low)} AND {sql(a)} <= {sql(high)})"
        case Among(a, values):
            return f"({sql(a)} IN ({', '.join(constant(v) for v in values)}))"
        case Missing(a):
            return f"({sql(a)} IS NULL)"
        case Call(name, arguments):
            return f"{name}({', '.join(sql(a) for a in arguments)})"
        case Not(a):
            return f"(NOT {sql(a)})"
        case Or(a, b):
            return f"({sql(a)} OR {sql(b)})"


def constant(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return "'" + value.replace("'", "''") + "'"
        case date():
            return f"DATE '{value.isoformat()}'"
        case float():
            return f"'{value}'::DOUBLE"
        case Decimal():
            return f"'{value}'::DECIMAL(12, 3)"
        case _:
            return str(value)
