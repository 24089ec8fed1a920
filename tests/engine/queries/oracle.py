"""The exact answer of a query case by DuckDB.

Of a relation at an instant: the query's own text, with the windows' contents at that instant in place of the windows. Of
a stream of results: SQL over the whole history with the window conditions written out. There, every entry of FROM is a
struct column beside its lifetime, [s_, e_), and its time, t_; joins compare lifetimes. Time windows and frames count those
results. What a relation turned into a stream emits is found by asking at every instant at which something can happen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import duckdb
import pyarrow as pa

from thalweg.language.query import Window
from thalweg.testing.querycase import (
    Both,
    Compared,
    Condition,
    Dialect,
    Either,
    Exists,
    From,
    QueryCase,
    Select,
    Tree,
    condition,
    item,
    names_of,
    nodes,
    sql,
)
from thalweg.testing.queryfunctions import STAY

LONGEST_STAY = 4
"""In the window `stay`."""
NEVER = 2**61
"""Beyond all times; its negative is before them."""
JOINS = {
    "inner": "JOIN", "left": "LEFT JOIN", "right": "RIGHT JOIN", "full": "FULL JOIN", "semi": "SEMI JOIN",
    "anti": "ANTI JOIN",
}  # fmt: skip
_ASK = compile("db.execute(text).fetchall()", "<tables as variables>", "eval")
_TABLE = compile("db.sql(text).to_arrow_table()", "<tables as variables>", "eval")
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
        for entry in nodes(case.query, From):
            if entry.stream:
                tables[emitted(entry)] = self._emitted(entry, instants(case), tables)
        return tables

    def _emitted(self, entry: From, moments: set[int], tables: dict[str, pa.Table]) -> pa.Table:
        """What enters or leaves a relation, with its instants."""
        assert entry.query is not None
        old, new = ("before", "after") if entry.stream == "istream" else ("after", "before")
        before, found = self._alive(entry.query, -NEVER, tables), []
        for moment in [-NEVER, *sorted(moments)]:
            after = self._alive(entry.query, moment, tables)
            if moment == -NEVER and entry.stream == "istream":
                before = after.slice(0, 0)
            change = f"SELECT *, {moment}::BIGINT AS micros FROM (SELECT * FROM {new} EXCEPT ALL SELECT * FROM {old})"
            found.append(self._table(change, {"before": before, "after": after}))
            before = after
        whole = pa.concat_tables(found)
        return whole.append_column("arrival", pa.array(range(len(whole)), pa.int64()))

    def _alive(self, query: Tree, instant: int, tables: dict[str, pa.Table]) -> pa.Table:
        return self._table(alive(query, instant), tables)

    def _table(self, text: str, tables: dict[str, pa.Table]) -> pa.Table:
        found: pa.Table = eval(_TABLE, {"db": self.db, "text": text, **tables})
        return found

    def ask(self, text: str, tables: dict[str, pa.Table]) -> Rows:
        found: Rows = eval(_ASK, {"db": self.db, "text": text, **tables})
        return found


# A relation at an instant


def at(case: QueryCase, instant: int) -> str:
    """The relation at an instant. With EVERY it is what it was at the last multiple."""
    return alive(case.query, instant)


def alive(query: Tree, instant: int) -> str:
    def entry(part: From) -> str:
        if part.query is not None and not part.stream:
            return f"({sql(part.query, dialect)}) AS {part.alias}"
        return f"{content(part.source or emitted(part), part.window, instant)} AS {part.alias}"

    def counted(query: Select) -> str:  # what was counted stays
        return f"SELECT {', '.join(names_of(query))} FROM ({history(query)}) WHERE t_ <= {instant}"

    dialect = Dialect(entry, JOINS, counted)
    return sql(query, dialect)


def emitted(entry: From) -> str:
    """The table of what a relation in FROM emits as a stream."""
    return f"emitted_{entry.alias}"


def instants(case: QueryCase) -> set[int]:
    """When something may change: times of rows, and when they leave a window over time."""
    found: set[int] = set()
    arrivals = case.arrivals()
    for entry in nodes(case.query, From):
        if entry.source and entry.window is not None:
            source = case.source(entry.source)
            for row, _ in arrivals[entry.source]:
                time = source.micros(row)
                found |= {time, time + entry.window.span + 1}
                found |= set(range(time, time + LONGEST_STAY + 1)) if entry.window.kind == "custom" else set()
    for entry in nodes(case.query, From):
        if entry.stream and entry.window is not None:
            found |= {t + entry.window.span + 1 for t in found}
    for select in nodes(case.query, Select):
        if select.hop is not None and found:
            found |= set(range(min(found), max(found) + sum(select.hop) + 1))
    if case.every:
        found |= {-(-t // case.every) * case.every for t in found}
    return found


def content(source: str, window: Window | None, instant: int) -> str:
    """What a window holds."""
    if window is None:
        return source
    past = f"SELECT * FROM {source} WHERE micros <= {instant}"
    newest = "ORDER BY micros DESC, arrival DESC"
    match window.kind:
        case "range" | "now":
            return f"({past} AND micros >= {instant - window.span})"
        case "custom":
            return f"({past} AND coalesce(micros + {STAY} > {instant}, true))"
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
    items = ", ".join(f"{item(part, Dialect(_table, JOINS, history))} AS {name}" for part, name in query.items)
    if query.hop is not None:
        return _hopped(query, relation, items)
    if query.frames:  # a row stays once it has its values
        return f"SELECT {items}, t_ AS s_, {NEVER} AS e_, t_ FROM ({relation})"
    return f"SELECT {items}, s_, e_, t_ FROM ({relation})"


def _hopped(query: Select, relation: str, items: str) -> str:
    """Every result in each of its windows, and each group once, when its window closes."""
    assert query.hop is not None
    length, slide = query.hop
    first = f"t_ - ((t_ % {slide}) + {slide}) % {slide}"
    rows = f"SELECT *, unnest(generate_series({first}, t_ - {length} + 1, -{slide})) + {length} AS until_ FROM ({relation})"
    rows += f" WHERE t_ > -{NEVER}"  # what holds from the beginning has no time, and is in no window
    keys = ", ".join([*query.group, "until_"])
    having = f" HAVING {query.having}" if query.having else ""
    times = f"until_ AS s_, {NEVER} AS e_, until_ AS t_"
    return f"SELECT {items}, {times} FROM ({rows}) GROUP BY {keys}{having}"


def _lives(entry: From) -> str:
    """An entry as a struct with its lifetime."""
    if entry.query is not None and not entry.stream and _static(entry.query):
        text = sql(entry.query, Dialect(_table, JOINS, history))  # what only tables feed never changes, whatever it is
        return f"SELECT {entry.alias}, -{NEVER} AS s_, {NEVER} AS e_, -{NEVER} AS t_ FROM ({text}) AS {entry.alias}"
    if entry.query is not None and not entry.stream:
        return f"SELECT {entry.alias}, s_, e_, t_ FROM ({history(entry.query)}) AS {entry.alias}"
    ends = _ends(entry.window)
    start = "micros" if entry.window is not None else f"-{NEVER}"
    rows = f"SELECT *, {start} AS s_, {ends} AS e_ FROM {entry.source or emitted(entry)}"
    return f"SELECT {entry.alias}, s_, e_, s_ AS t_ FROM ({rows}) AS {entry.alias} WHERE s_ < e_"


def _static(query: Tree) -> bool:
    return all(f.window is None for f in nodes(query, From))


def _table(entry: From) -> str:
    inner = entry.source if entry.query is None else f"({sql(entry.query, Dialect(_table, JOINS, history))})"
    return f"{inner} AS {entry.alias}"


def _ends(window: Window | None) -> str:
    if window is None or window.kind == "unbounded":
        return f"{NEVER}"
    if window.kind in ("range", "now"):
        return f"micros + {window.span + 1}"
    if window.kind == "custom":
        return f"coalesce(micros + {STAY}, {NEVER})"
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
    if isinstance(one, Compared) or _static(one.query):  # a partner in a table has no time
        return f"SELECT * FROM ({left}) WHERE {condition(part, Dialect(_table, JOINS, history))}"
    lives = _lives(one.query.first)
    conditions = " AND ".join(f"({c})" for c in (*one.query.where, OVERLAP))
    if isinstance(one, Exists):
        found = f"EXISTS (SELECT 1 FROM ({lives}) AS r_ WHERE {conditions})"
        first = f"SELECT min(r_.t_) FROM ({lives}) AS r_ WHERE {conditions}"
    else:
        ((value, _),) = one.query.items
        found = f"{one.value} IN (SELECT {value} FROM ({lives}) AS r_ WHERE {conditions})"
        first = f"SELECT min(r_.t_) FROM ({lives}) AS r_ WHERE {conditions} AND {value} = {one.value}"
    # A partner that was found gives its time, also where the row does not need it; otherwise the row has its own.
    time = f"CASE WHEN {found} THEN greatest(l_.t_, ({first})) ELSE l_.t_ END"
    truth = f"NOT ({found})" if one.negated else f"({found})"
    return f"SELECT l_.* EXCLUDE (t_), {time} AS t_ FROM ({left}) AS l_ WHERE {truth} OR {other}"
