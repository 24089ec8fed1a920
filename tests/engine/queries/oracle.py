"""The exact answer of a query case by DuckDB.

Of a relation at an instant: the query's own text, with the windows' contents at that instant in place of the windows. Of
a stream of results: SQL over the whole history with the window conditions written out. There, every entry of FROM is a
struct column beside its lifetime, [s_, e_), and its time, t_; joins compare lifetimes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import duckdb
import pyarrow as pa

from thalweg.language.query import Window
from thalweg.testing.querycase import Both, Condition, Either, Exists, From, In, QueryCase, Tree, nodes, sql

NEVER = 2**61
"""Beyond all times; its negative is before them."""
JOINS = {
    "inner": "JOIN", "left": "LEFT JOIN", "right": "RIGHT JOIN", "full": "FULL JOIN", "semi": "SEMI JOIN",
    "anti": "ANTI JOIN",
}  # fmt: skip
_ASK = compile("db.execute(text).fetchall()", "<tables as variables>", "eval")
Rows = list[tuple[Any, ...]]


class QueryOracle:
    """One connection, many cases."""

    def __init__(self) -> None:
        self.db = duckdb.connect(config={"threads": 1, "nested_loop_join_threshold": 1000})

    def tables(self, case: QueryCase) -> dict[str, pa.Table]:
        """What arrived, with times in microseconds and the order of arrival."""
        arrivals = case.arrivals()
        tables = {}
        for source in case.sources:
            if source.time is None:
                tables[source.name] = source.table()
                continue
            rows = [r for r, _ in arrivals[source.name]]
            table = source.table(rows).drop_columns([source.time])
            table = table.append_column("micros", pa.array([source.micros(r) for r in rows], pa.int64()))
            tables[source.name] = table.append_column("arrival", pa.array(range(len(rows)), pa.int64()))
        return tables

    def ask(self, text: str, tables: dict[str, pa.Table]) -> Rows:
        found: Rows = eval(_ASK, {"db": self.db, "text": text, **tables})
        return found


# A relation at an instant


def at(case: QueryCase, instant: int) -> str:
    """The relation at an instant. With EVERY it is what it was at the last multiple."""

    def entry(part: From) -> str:
        if part.query is not None:
            return f"({sql(part.query, entry, JOINS)}) AS {part.alias}"
        return f"{content(part.source, part.window, instant)} AS {part.alias}"

    return sql(case.query, entry, JOINS)


def content(source: str, window: Window | None, instant: int) -> str:
    """What a window holds."""
    if window is None:
        return source
    past = f"SELECT * FROM {source} WHERE micros <= {instant}"
    newest = "ORDER BY micros DESC, arrival DESC"
    match window.kind:
        case "range" | "now":
            return f"({past} AND micros >= {instant - window.span})"
        case "rows":
            return f"({past} QUALIFY row_number() OVER ({newest}) <= {window.rows})"
        case "partition":
            return f"({past} QUALIFY row_number() OVER (PARTITION BY {', '.join(window.by)} {newest}) <= {window.rows})"
        case _:
            return f"({past})"


# A stream of results


def history(query: Tree) -> str:
    """All results, each with its lifetime and its time as the last three columns."""
    if isinstance(query, Both):
        assert query.kind == "UNION ALL"
        return f"{history(query.left)} UNION ALL {history(query.right)}"
    relation = _lives(query.first)
    for join in query.joins:
        relation = _joined(relation, join.kind, _lives(join.entry), " AND ".join(f"({c})" for c in join.on))
    for part in query.where:
        relation = _where(relation, part)
    items = ", ".join(f"{text} AS {name}" for text, name in query.items)
    return f"SELECT {items}, s_, e_, t_ FROM ({relation})"


def _lives(entry: From) -> str:
    """An entry as a struct with its lifetime."""
    if entry.query is not None and all(f.window is None for f in nodes(entry.query, From)):
        text = sql(entry.query, _table, JOINS)  # what only tables feed never changes, whatever it is
        return f"SELECT {entry.alias}, -{NEVER} AS s_, {NEVER} AS e_, -{NEVER} AS t_ FROM ({text}) AS {entry.alias}"
    if entry.query is not None:
        return f"SELECT {entry.alias}, s_, e_, t_ FROM ({history(entry.query)}) AS {entry.alias}"
    ends = _ends(entry.window)
    start = "micros" if entry.window is not None else f"-{NEVER}"
    rows = f"SELECT *, {start} AS s_, {ends} AS e_ FROM {entry.source}"
    return f"SELECT {entry.alias}, s_, e_, s_ AS t_ FROM ({rows}) AS {entry.alias} WHERE s_ < e_"


def _table(entry: From) -> str:
    inner = entry.source if entry.query is None else f"({sql(entry.query, _table, JOINS)})"
    return f"{inner} AS {entry.alias}"


def _ends(window: Window | None) -> str:
    if window is None or window.kind == "unbounded":
        return f"{NEVER}"
    if window.kind in ("range", "now"):
        return f"micros + {window.span + 1}"
    by = f"PARTITION BY {', '.join(window.by)} " if window.by else ""
    return f"coalesce(lead(micros, {window.rows}) OVER ({by}ORDER BY micros, arrival), {NEVER})"


OVERLAP = "l_.s_ < r_.e_ AND r_.s_ < l_.e_"
KEPT = "EXCLUDE (s_, e_, t_)"


def _joined(left: str, kind: str, right: str, on: str) -> str:
    if kind in ("semi", "anti"):
        return _judged(left, lambda inside: f"SELECT 1 FROM ({right}) AS r_ WHERE {on} AND {inside}", kind == "anti")
    both = "greatest(l_.s_, r_.s_) AS s_, least(l_.e_, r_.e_) AS e_, greatest(l_.t_, r_.t_) AS t_"
    return (
        f"SELECT l_.* {KEPT}, r_.* {KEPT}, {both} FROM ({left}) AS l_ {JOINS[kind]} ({right}) AS r_ "
        f"ON {on} AND {OVERLAP}"
    )


def _judged(left: str, partners: Callable[[str], str], negated: bool) -> str:
    """Rows that have a partner, with the time of the first; or those that have none."""
    found = f"EXISTS ({partners(OVERLAP)})"
    if negated:
        return f"SELECT * FROM ({left}) AS l_ WHERE NOT {found}"
    first = partners(OVERLAP).replace("SELECT 1 ", "SELECT min(r_.t_) ", 1)
    return f"SELECT l_.* EXCLUDE (t_), greatest(l_.t_, ({first})) AS t_ FROM ({left}) AS l_ WHERE {found}"


def _where(left: str, part: Condition) -> str:
    if isinstance(part, str):
        return f"SELECT * FROM ({left}) WHERE {part}"
    one, other = (part.one, part.other) if isinstance(part, Either) else (part, "false")
    assert isinstance(one, Exists | In)
    lives = _lives(one.query.first)
    conditions = " AND ".join(f"({c})" for c in (*one.query.where, OVERLAP))
    if isinstance(one, Exists):
        found = f"EXISTS (SELECT 1 FROM ({lives}) AS r_ WHERE {conditions})"
        first = f"SELECT min(r_.t_) FROM ({lives}) AS r_ WHERE {conditions}"
    else:
        ((item, _),) = one.query.items
        found = f"{one.value} IN (SELECT {item} FROM ({lives}) AS r_ WHERE {conditions})"
        first = f"SELECT min(r_.t_) FROM ({lives}) AS r_ WHERE {conditions} AND {item} = {one.value}"
    # A partner that was found gives its time, also where the row does not need it; otherwise the row has its own.
    time = f"CASE WHEN {found} THEN greatest(l_.t_, ({first})) ELSE l_.t_ END"
    truth = f"NOT ({found})" if one.negated else f"({found})"
    return f"SELECT l_.* EXCLUDE (t_), {time} AS t_ FROM ({left}) AS l_ WHERE {truth} OR {other}"
