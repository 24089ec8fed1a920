"""A query's text bound to its sources: every name resolved, every predicate given to who evaluates it.

Conjuncts of WHERE and ON become filters (one input), key classes (columns of different inputs set equal, closed under
transitivity where the types allow it) or residuals (everything else between inputs). Invariant: filters, keys and
residuals together hold for exactly the combinations that WHERE and ON hold for. Thesis 2.1 and 5.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from thalweg.errors import DefinitionError, QueryError, ThalwegError, did_you_mean
from thalweg.language.compile import BOOL, Names, OnlySpark, Resolved, compiled
from thalweg.language.expression import As, Compare, Condition, Constant, Expression, Field
from thalweg.language.functions import signature
from thalweg.language.naming import spark_name
from thalweg.language.parse import Parsed, parse, quoted
from thalweg.language.query import Block, Column, Filter, Input, KeyClass, OutputColumn, Query, Residual, Source, Window
from thalweg.language.types import common, comparable, family, is_decimal, logical, lossless
from thalweg.language.underline import Span

_UNSUPPORTED: dict[str, tuple[str, tuple[TokenType, ...]]] = {
    "with_": ("WITH", (TokenType.WITH,)),
    "distinct": ("DISTINCT", (TokenType.DISTINCT,)),
    "group": ("GROUP BY", (TokenType.GROUP_BY,)),
    "having": ("HAVING", (TokenType.HAVING,)),
    "order": ("ORDER BY", (TokenType.ORDER_BY,)),
    "sort": ("SORT BY", (TokenType.SORT_BY,)),
    "cluster": ("CLUSTER BY", (TokenType.CLUSTER_BY,)),
    "distribute": ("DISTRIBUTE BY", (TokenType.DISTRIBUTE_BY,)),
    "limit": ("LIMIT", (TokenType.LIMIT, TokenType.FETCH)),
    "offset": ("OFFSET", (TokenType.OFFSET,)),
    "qualify": ("QUALIFY", (TokenType.QUALIFY,)),
    "windows": ("a named window", (TokenType.WINDOW,)),
    "laterals": ("LATERAL VIEW", (TokenType.LATERAL,)),
    "pivots": ("PIVOT", (TokenType.PIVOT, TokenType.UNPIVOT)),
    "sample": ("TABLESAMPLE", (TokenType.TABLE_SAMPLE,)),
}
_KNOWN = {"expressions", "from_", "joins", "where", "hint", "kind"}
_AGGREGATES = frozenset(
    ["any", "some", "every", "bool_and", "bool_or", "count_if", "max_by", "min_by", "mode", "listagg", "string_agg",
     "try_sum", "try_avg", "histogram_numeric", "count_min_sketch", "percentile_cont", "percentile_disc"]
)  # fmt: skip
"""Aggregates of Spark that sqlglot may take for plain functions."""
_CHANGING = frozenset(["rand", "randn", "random", "uuid", "shuffle", "monotonically_increasing_id", "now", "randstr",
                       "uniform", "spark_partition_id", "input_file_name", "current_timestamp", "localtimestamp",
                       "current_date", "curdate", "current_time", "unix_timestamp"])  # fmt: skip
_TO_CONNECT = "set one of its columns equal to one of another input, or write CROSS JOIN if every pair is meant"


def bind(text: str, sources: Mapping[str, Source], functions: Mapping[str, Callable[..., Any]] | None = None) -> Query:
    """Bind a continuous query to its streams and tables, and to the Python functions it calls.

    >>> trips = Source(pa.schema({"ts": pa.int64(), "car": pa.int32()}), time="ts")
    >>> cars = Source(pa.schema({"car": pa.int64(), "colour": pa.string()}))
    >>> q = bind("SELECT t.ts FROM trips [RANGE 1 HOUR] t, cars c WHERE t.car = c.car AND c.colour = 'red'",
    ...          {"trips": trips, "cars": cars})
    >>> [str(c) for c in q.block.keys[0].columns], q.block.keys[0].type, q.block.filters[0].text
    (['t.car', 'c.car'], DataType(int64), "c.colour = 'red'")
    """
    if not isinstance(text, str):
        raise QueryError(f"a query is text, not a {type(text).__name__}")
    functions = dict(functions or {})
    for name, function in functions.items():
        if not callable(function):
            raise DefinitionError(f"'{name}' is no function but a {type(function).__name__}")
    try:
        return _Binder(parse(text, functions), sources, functions).query()
    except RecursionError:
        raise QueryError("the query is nested too deeply", hint="use fewer parentheses") from None


@dataclass
class _From:
    """One entry of FROM while it is bound."""

    input: Input
    node: exp.Table
    join: exp.Join | None
    position: int
    crossed: bool = False
    """Written as CROSS JOIN."""


@dataclass
class _Conjunct:
    node: exp.Expr
    text: str
    columns: list[Resolved]
    functions: tuple[str, ...]

    @property
    def inputs(self) -> list[str]:
        return list(dict.fromkeys(r.column.input for r in self.columns))


@dataclass
class _Keys:
    """Classes of columns that are equal; a class is kept only while all its members embed in its type."""

    classes: list[tuple[list[Column], pa.DataType]] = field(default_factory=list)

    def find(self, column: Column) -> int | None:
        return next((i for i, (columns, _) in enumerate(self.classes) if column in columns), None)


class _Binder:
    def __init__(self, parsed: Parsed, sources: Mapping[str, Source], functions: dict[str, Callable[..., Any]]) -> None:
        self.parsed = parsed
        self.select = parsed.select
        self.sources = sources
        self.functions = functions
        self.entries: list[_From] = []
        self.resolved: dict[int, Resolved] = {}
        self.hidden: set[Column] = set()
        """Right-hand columns of USING: not found without their alias."""
        self.visible: list[Column] = []
        """What SELECT * gives."""
        self.called = {
            stand_in: (name, signature(functions[name])) for stand_in, name in parsed.functions.items()
        }  # fmt: skip

    # -- the whole

    def query(self) -> Query:
        self._supported()
        self._from()
        conjuncts: list[_Conjunct] = []
        equal: list[tuple[Column, Column, exp.Expr]] = []
        for entry in self.entries:
            equal += self._join(entry, conjuncts)
        for item in self.select.expressions:
            self._clean(item, "the select list")
        where = self.select.args.get("where")
        if where is not None:
            conjuncts += self._conjuncts(where.this, self.entries)
        output = self._output()
        keys = _Keys()
        filters: list[Filter] = []
        residuals: list[Residual] = []
        pairs = [(left, right, node, f"{_sql(left)} = {_sql(right)}") for left, right, node in equal]
        for c in conjuncts:
            if len(c.inputs) < 2:
                filters += self._filter(c)
            elif (pair := self._key_pair(c)) is not None:
                pairs.append((*pair, c.node, c.text))
            else:
                residuals.append(self._residual(c))
        # Pairs that lose no digits first: they may form large classes, the others stay on their own.
        for left, right, node, text in sorted(pairs, key=lambda p: not self._exact(p[0], p[1])):
            self._equal(left, right, node, text, keys, residuals)
        filters += [f for columns, type in keys.classes for f in _implied(columns, type)]
        classes = tuple(
            KeyClass(tuple(sorted(columns, key=lambda c: self._order(c.input))), type) for columns, type in keys.classes
        )
        cross = self._connected(classes, residuals)
        used = {name: self.functions[name] for name in self.parsed.functions.values()}
        inputs = tuple(e.input for e in self.entries)
        block = Block(inputs, classes, tuple(filters), tuple(residuals), output, cross)
        return Query(self.parsed.text, block, used)

    def _order(self, alias: str) -> int:
        return next(i for i, e in enumerate(self.entries) if e.input.alias == alias)

    # -- what is not supported, by name

    def _supported(self) -> None:
        for key, value in self.select.args.items():
            if not value or key in _KNOWN:
                continue
            name, kinds = _UNSUPPORTED.get(key, (key.strip("_").upper(), ()))
            raise self.parsed.error(self.parsed.clause(*kinds), f"{name} is not supported yet", _INSTEAD.get(key))
        if self.select.args.get("kind"):
            raise self.parsed.error(self.parsed.clause(TokenType.STRUCT), "SELECT AS is not supported yet")
        if not self.select.args.get("from_"):
            raise self.parsed.error(None, "FROM is missing", "for example SELECT * FROM s [RANGE 10 SECONDS]")
        if not self.select.expressions:
            raise self.parsed.error(self.parsed.clause(TokenType.SELECT), "the select list is empty",
                                    "SELECT * gives all columns")  # fmt: skip

    def _clean(self, node: exp.Expr, place: str) -> None:
        """Refuse what has no meaning here, before anything is resolved."""
        for part in node.walk():
            name = part.name.lower() if isinstance(part, exp.Anonymous) else ""
            if isinstance(part, exp.Window | exp.WithinGroup):
                raise self.parsed.error(part, "window functions are not supported yet", _AFTERWARDS)
            if isinstance(part, exp.AggFunc) or name in _AGGREGATES:
                raise self.parsed.error(part, f"aggregates are not supported yet: {self._called(part)}", _AFTERWARDS)
            if isinstance(part, exp.Select | exp.SetOperation | exp.Subquery):
                raise self.parsed.error(part, "subqueries are not supported yet")
            if isinstance(part, exp.UDTF | exp.Explode | exp.Inline):
                raise self.parsed.error(part, "functions that make rows are not supported yet", _AFTERWARDS)
            if isinstance(part, exp.Placeholder | exp.Parameter | exp.SessionParameter):
                raise self.parsed.error(part, "parameters are not supported yet", "write the value itself")
            if name in ("istream", "dstream", "rstream"):
                raise self.parsed.error(part, f"{name.capitalize()} can't stand here", "leave it out")
            if place == "the select list" and isinstance(part, exp.Anonymous) and part.name in self.called:
                raise self.parsed.error(part, "Python functions in the select list are not supported yet", _AFTERWARDS)
            if place != "the select list":
                call = isinstance(part, exp.Func) and not isinstance(part, exp.Connector)
                word = self._called(part).lower() if call else ""
                if word in _CHANGING and part.name not in self.called and not self._fixed(part, word):
                    raise self.parsed.error(
                        part, f"{word} gives another answer each time it is asked",
                        "a replayed batch must give the same rows: use a column instead",
                    )  # fmt: skip

    def _fixed(self, part: exp.Expr, word: str) -> bool:
        """unix_timestamp(x) depends on x alone; unix_timestamp() on the clock."""
        return word == "unix_timestamp" and part.find(exp.Column) is not None

    def _called(self, part: exp.Expr) -> str:
        span = self.parsed.span(part)
        written = self.parsed.text[span.start : span.end] if span else ""
        word = written.partition("(")[0].strip()
        return word if word.replace("_", "a").isalnum() else part.key

    # -- FROM

    def _from(self) -> None:
        first = self.select.args["from_"].this
        self._entry(first, None)
        for join in self.select.args.get("joins") or []:
            self._join_kind(join)
            self._entry(join.this, join)
        for entry in self.entries:
            entry.input = replace(entry.input, window=self._window(entry))
        written = {e.position for e in self.entries}
        for position, clause in self.parsed.windows.items():
            if position not in written:
                raise self.parsed.error(clause.span, "this window belongs to no stream",
                                        "write it right behind its stream in FROM")  # fmt: skip

    def _join_kind(self, join: exp.Join) -> None:
        words = " ".join(str(join.args.get(k) or "").upper() for k in ("method", "side", "kind")).split()
        odd = [w for w in words if w not in ("INNER", "CROSS")]
        if odd:
            name = " ".join(w for w in words if w != "INNER")
            raise self.parsed.error(self._join_words(join), f"{name} JOIN is not supported yet",
                                    "JOIN keeps pairs that match, CROSS JOIN keeps all pairs")  # fmt: skip
        for key in ("match_condition", "global_", "hint", "pivots"):
            if join.args.get(key):
                raise self.parsed.error(join, f"{key.strip('_').upper()} is not supported yet")

    def _join_words(self, join: exp.Join) -> Span | None:
        """The words in front of the joined table."""
        start = self._start(join.this)
        before = [t for t in self.parsed.tokens if t.start < start] if start is not None else []
        words: list[Any] = []
        while before and before[-1].token_type not in (TokenType.COMMA, TokenType.R_PAREN) and len(words) < 4:
            token = before.pop()
            words.append(token)
            if token.token_type in (TokenType.LEFT, TokenType.RIGHT, TokenType.FULL, TokenType.NATURAL, TokenType.ASOF):
                break
            if token.token_type in (TokenType.SEMI, TokenType.ANTI) and before[-1:] and before[-1].token_type not in (
                TokenType.LEFT, TokenType.RIGHT
            ):  # fmt: skip
                break
        return Span(words[-1].start, words[0].end + 1) if words else None

    def _start(self, node: exp.Expr) -> int | None:
        """Where the name of a table starts."""
        starts = [i.meta["start"] for i in node.find_all(exp.Identifier) if "start" in i.meta]
        return min(starts) if starts else None

    def _entry(self, node: exp.Expr, join: exp.Join | None) -> None:
        if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
            raise self.parsed.error(node, "only streams and tables can stand in FROM", "name one of the sources")
        position = self._start(node)
        for key, value in node.args.items():
            if value and key not in ("this", "db", "catalog", "alias"):
                name = _UNSUPPORTED.get(key, (key.strip("_").upper(), ()))[0]
                raise self.parsed.error(node, f"{name} is not supported yet")
        alias = node.args.get("alias")
        if alias is not None and alias.args.get("columns"):
            raise self.parsed.error(alias, "new names for columns are not supported yet", "rename them in SELECT")
        written = ".".join(p.name for p in node.parts)
        source = self._source(node, written)
        name = node.alias or source
        for other in self.entries:
            if other.input.alias.lower() == name.lower():
                raise self.parsed.error(alias if node.alias else node, f"two inputs are called '{name}'",
                                        f"give one of them another name: {source} AS {name}_2")  # fmt: skip
        spec = self.sources[source]
        tokens = [t for t in self.parsed.tokens if position is not None and t.start < position][-2:]
        crossed = join is not None and len(tokens) == 2 and (tokens[0].token_type, tokens[1].token_type) == (
            TokenType.CROSS, TokenType.JOIN
        )  # fmt: skip
        self.entries.append(_From(Input(name, source, spec, Window("unbounded")), node, join, position or 0, crossed))

    def _source(self, node: exp.Table, written: str) -> str:
        found = _named(written, self.sources)
        if len(found) != 1:
            if found:
                raise self.parsed.error(node.this, f"'{written}' could be {_listed(found)}", "write its exact case")
            raise self.parsed.error(node.this, f"no stream or table '{written}'", did_you_mean(written, self.sources))
        spec = self.sources[found[0]]
        if not isinstance(spec, Source):
            raise DefinitionError(f"'{found[0]}' is no Source but a {type(spec).__name__}")
        if not spec.schema.names:
            raise DefinitionError(f"'{found[0]}' has no columns")
        if spec.time is not None:
            if spec.time not in spec.schema.names:
                raise DefinitionError(f"'{found[0]}' has no column '{spec.time}' to tell the time",
                                      hint=did_you_mean(spec.time, spec.schema.names))  # fmt: skip
            time = _field_type(spec.schema, spec.time)
            if not (pt.is_integer(time) or pt.is_timestamp(time)):
                raise DefinitionError(f"the time column '{spec.time}' of '{found[0]}' is {time}",
                                      hint="time is a timestamp or an integer")  # fmt: skip
        return found[0]

    def _window(self, entry: _From) -> Window:
        clause = self.parsed.windows.get(entry.position)
        given = entry.input
        if not given.is_stream:
            if clause is not None:
                raise self.parsed.error(clause.span, f"'{given.source}' is a table, it has no window",
                                        "leave the window out: a table is always seen whole")  # fmt: skip
            return Window("unbounded")
        if clause is None:
            if self.parsed.every is not None:
                return self.parsed.every.window
            if len(self.entries) == 1:
                return Window("now")  # nothing is joined, so nothing needs to be kept
            alias = f" AS {given.alias}" if given.alias != given.source else ""
            raise self.parsed.error(
                entry.node, f"the stream '{given.source}' has no window",
                f"say how long its tuples count: {quoted(given.source)} [RANGE 10 SECONDS]{alias}, "
                "or end the query with WINDOW 10 SECONDS for all streams",
            )  # fmt: skip
        by: list[str] = []
        for name, span in zip(clause.window.by, clause.by, strict=False):
            found = _named(name, given.spec.schema.names)
            if len(found) != 1:
                known = did_you_mean(name, given.spec.schema.names)
                raise self.parsed.error(span, f"'{given.source}' has no column '{name}'", known)
            by.append(found[0])
        return replace(clause.window, by=tuple(by))

    def _join(self, entry: _From, conjuncts: list[_Conjunct]) -> list[tuple[Column, Column, exp.Expr]]:
        """Take one entry's columns and conditions into the scope; the equalities that USING asks for."""
        alias = entry.input.alias
        own = [Column(alias, n) for n in entry.input.spec.schema.names]
        seen = self.entries[: self._order(alias) + 1]
        join = entry.join
        using = join.args.get("using") or [] if join is not None else []
        equal: list[tuple[Column, Column, exp.Expr]] = []
        for node in using:
            name = node.name
            left = self._lookup(name, seen[:-1], node)
            right = self._lookup(name, seen[-1:], node)
            equal.append((left, right, node))
            self.hidden.add(right)
        merged = [left for left, _, _ in equal]
        dropped = {right for _, right, _ in equal}
        self.visible = [*merged, *(c for c in self.visible if c not in merged), *(c for c in own if c not in dropped)]
        on = join.args.get("on") if join is not None else None
        if on is not None:
            conjuncts += self._conjuncts(on, seen)
        return equal

    # -- names

    def _lookup(self, name: str, entries: Iterable[_From], node: exp.Expr) -> Column:
        """The one column of that name."""
        entries = list(entries)
        found: list[Column] = []
        for exact in (True, False):
            for e in entries:
                names = [n for n in e.input.spec.schema.names if n == name or (not exact and n.lower() == name.lower())]
                found += [Column(e.input.alias, n) for n in names]
            found = [c for c in found if c not in self.hidden]
            if found:
                break
        if not found:
            known = list(dict.fromkeys(n for e in entries for n in e.input.spec.schema.names))
            shown = f"'{entries[0].input.alias}' has no column '{name}'" if len(entries) == 1 else f"no column '{name}'"
            hint = did_you_mean(name, known)
            if isinstance(node, exp.Column) and node.this.args.get("quoted") and self._double_quoted(node):
                hint = f"a text stands in single quotes: '{name}'; double quotes are for names"
            raise self.parsed.error(node, shown, hint)
        if len(found) > 1:
            raise self.parsed.error(node, f"'{name}' is ambiguous", f"write {_either([str(c) for c in found])}")
        return found[0]

    def _double_quoted(self, node: exp.Column) -> bool:
        start = node.this.meta.get("start")
        return start is not None and self.parsed.text[start : start + 1] == '"'

    def _resolve(self, node: exp.Column, entries: list[_From]) -> Resolved:
        parts = [p.name for p in node.parts]
        aliases = _named(parts[0], [e.input.alias for e in entries]) if len(parts) > 1 else []
        if aliases:
            owner = next(e for e in entries if e.input.alias == aliases[0])
            if _named(parts[1], owner.input.spec.schema.names) or not self._has(parts[0], entries):
                column = self._lookup_in(owner, parts[1], node)
                return self._member(node, column, parts[2:])
        elif len(parts) > 1 and _named(parts[0], [e.input.alias for e in self.entries]):
            raise self.parsed.error(node, f"'{parts[0]}' is joined only later", "move this condition to WHERE")
        elif len(parts) > 1 and not self._has(parts[0], entries):
            raise self.parsed.error(
                node, f"no input '{parts[0]}' in FROM", did_you_mean(parts[0], [e.input.alias for e in entries])
            )
        return self._member(node, self._lookup(parts[0], entries, node), parts[1:])

    def _lookup_in(self, owner: _From, name: str, node: exp.Expr) -> Column:
        hidden, self.hidden = self.hidden, set()
        try:
            return self._lookup(name, [owner], node)
        finally:
            self.hidden = hidden

    def _has(self, name: str, entries: list[_From]) -> bool:
        return any(_named(name, e.input.spec.schema.names) for e in entries)

    def _member(self, node: exp.Column, column: Column, parts: list[str]) -> Resolved:
        """Walk into structs."""
        owner = next(e for e in self.entries if e.input.alias == column.input)
        top = type = _field_type(owner.input.spec.schema, column.name)
        fields: list[str] = []
        for part in parts:
            if not pt.is_struct(type):
                raise self.parsed.error(node, f"'{'.'.join([column.name, *fields])}' has no fields, it is {type}")
            names = [type.field(i).name for i in range(type.num_fields)]
            found = _named(part, names)
            if len(found) != 1:
                raise self.parsed.error(node, f"no field '{part}' in '{column.name}'", did_you_mean(part, names))
            fields.append(found[0])
            type = type.field(type.get_field_index(found[0])).type
        return Resolved(column, top, tuple(fields))

    def _columns(self, node: exp.Expr, entries: list[_From]) -> list[Resolved]:
        """Resolve all columns below a node, in the order they were written."""
        found = [c for c in node.find_all(exp.Column) if not isinstance(c.this, exp.Star) and c.arg_key != "unit"]
        found.sort(key=lambda c: self._start(c) or 0)
        for column in found:
            self.resolved[id(column)] = self._resolve(column, entries)
        return [self.resolved[id(c)] for c in found]

    def _text(self, node: exp.Expr, named: bool = True) -> str:
        """The node's own text with every column under its full name; or, as Spark names things, with its last alone."""
        span = self.parsed.span(node)
        if span is None:
            return str(node.sql("spark"))
        replaced: dict[int, tuple[int, str]] = {}
        for column in node.find_all(exp.Column):
            resolved = self.resolved.get(id(column))
            places = [Span(i.meta["start"], i.meta["end"] + 1) for i in column.parts if "start" in i.meta]
            if resolved is not None and places:
                whole = Span(min(p.start for p in places), max(p.end for p in places))
                full = ".".join([_sql(resolved.column), *(quoted(f) for f in resolved.fields)])
                replaced[whole.start] = (whole.end, full if named else self._name_of(column))
        return self.parsed.rendered(span, replaced, quotes=named)

    # -- conditions

    def _conjuncts(self, node: exp.Expr, entries: list[_From]) -> list[_Conjunct]:
        self._clean(node, "a condition")
        found: list[_Conjunct] = []
        for part in _split(node):
            columns = self._columns(part, entries)
            names = [self.called[f.name][0] for f in part.find_all(exp.Anonymous) if f.name in self.called]
            found.append(_Conjunct(part, self._text(part), columns, tuple(dict.fromkeys(reversed(names)))))
        return found

    def _compiled(self, c: _Conjunct, key: Callable[[Column], Any]) -> Expression | None:
        names = Names(self.resolved, self.called, lambda n, m, h: self.parsed.error(n, m, h), key)
        try:
            condition = compiled(c.node, names)
            return condition if c.functions or _runs(condition, c.columns, key) else None
        except OnlySpark as only:
            if c.functions:
                raise self.parsed.error(
                    only.node, f"only Spark can compute this, but {c.functions[0]} in the same condition is Python",
                    "make it a column of the input first (withColumn), or split the condition with AND",
                ) from None  # fmt: skip
            return None

    def _filter(self, c: _Conjunct) -> list[Filter]:
        condition = self._compiled(c, lambda column: column.name)
        columns = tuple(dict.fromkeys(r.column.name for r in c.columns))
        if c.inputs:
            owner = c.inputs[0]
        else:
            if condition is not None and not c.functions and _holds(condition):
                return []
            first = self.entries[0].input  # it must stand somewhere; any input's rows will do to count by
            owner, columns = first.alias, (first.spec.schema.names[0],)
        return [Filter(owner, c.text, columns, Condition(c.text, condition) if condition else None, c.functions)]

    def _residual(self, c: _Conjunct) -> Residual:
        condition = self._compiled(c, lambda column: column)
        columns = tuple(dict.fromkeys(r.column for r in c.columns))
        inputs = tuple(sorted(c.inputs, key=self._order))
        return Residual(inputs, c.text, columns, Condition(c.text, condition) if condition else None)

    def _key_pair(self, c: _Conjunct) -> tuple[Column, Column] | None:
        if not isinstance(c.node, exp.EQ):
            return None
        sides = [c.node.this.unnest(), c.node.expression.unnest()]
        if not all(isinstance(s, exp.Column) for s in sides) or any(self.resolved[id(s)].fields for s in sides):
            return None
        return self.resolved[id(sides[0])].column, self.resolved[id(sides[1])].column

    def _equal(self, a: Column, b: Column, node: exp.Expr, text: str, keys: _Keys, residuals: list[Residual]) -> None:
        """Merge the classes of two columns; where that would not be exact, keep the pair as a residual."""
        types = [self._type(c) for c in (a, b)]
        if not comparable(*types):
            raise self.parsed.error(
                node, f"a {family(types[0])} can't be compared with a {family(types[1])}",
                f"{a} is {types[0]}, {b} is {types[1]}: CAST one of them",
            )  # fmt: skip
        shared = common(*types)
        simple = shared is not None and not pt.is_nested(shared) and not pt.is_null(shared)
        if shared is None or not simple:
            residuals.append(self._pair_residual(a, b, text, None))
            return
        i, j = keys.find(a), keys.find(b)
        if i is not None and i == j:
            return
        left = keys.classes[i] if i is not None else ([a], types[0])
        right = keys.classes[j] if j is not None else ([b], types[1])
        merged = common(left[1], right[1])
        members = [*left[0], *right[0]]
        exact = merged is not None and all(lossless(self._type(c), merged) for c in members)
        digits = any(is_decimal(t) for t in types) and pt.is_floating(shared)
        if digits or not (exact or (i is None and j is None)):
            sides = [As(shared, Field(t, c)) for t, c in zip(types, (a, b), strict=True)]
            condition = None if digits else Compare(BOOL, "=", *sides)
            residuals.append(self._pair_residual(a, b, text, condition))
            return
        keys.classes = [c for k, c in enumerate(keys.classes) if k not in (i, j)]
        keys.classes.append((members, merged if merged is not None else shared))

    def _pair_residual(self, a: Column, b: Column, text: str, condition: Expression | None) -> Residual:
        inputs = tuple(sorted((a.input, b.input), key=self._order))
        return Residual(inputs, text, (a, b), Condition(text, condition) if condition else None)

    def _exact(self, a: Column, b: Column) -> bool:
        shared = common(self._type(a), self._type(b))
        return shared is not None and lossless(self._type(a), shared) and lossless(self._type(b), shared)

    def _type(self, column: Column) -> pa.DataType:
        spec = next(e.input.spec for e in self.entries if e.input.alias == column.input)
        return logical(_field_type(spec.schema, column.name))

    def _connected(self, keys: Iterable[KeyClass], residuals: Iterable[Residual]) -> bool:
        """Whether a product is asked for; an error if there is one that was not."""
        groups: list[set[str]] = [{e.input.alias} for e in self.entries]

        def link(aliases: Iterable[str]) -> None:
            wanted = set(aliases)
            touched = [g for g in groups if g & wanted]
            for g in touched:
                groups.remove(g)
            groups.append(set().union(*touched))

        for key in keys:
            link(c.input for c in key.columns)
        for residual in residuals:
            link(residual.inputs)
        product = len(groups) > 1
        for i, entry in enumerate(self.entries):
            if entry.crossed:
                link([entry.input.alias, self.entries[i - 1].input.alias])
        if len(groups) > 1:
            first = next(g for g in groups if self.entries[0].input.alias in g)
            lost = next(e for e in self.entries if e.input.alias not in first)
            raise self.parsed.error(
                lost.node, f"no predicate connects '{lost.input.alias}' with {_listed(sorted(first, key=self._order))}",
                _TO_CONNECT,
            )  # fmt: skip
        return product

    # -- SELECT

    def _output(self) -> tuple[OutputColumn, ...]:
        found: list[OutputColumn] = []
        for item in self.select.expressions:
            found += self._items(item)
        return tuple(found)

    def _items(self, item: exp.Expr) -> Iterator[OutputColumn]:
        star = item if isinstance(item, exp.Star) else item.this if isinstance(item, exp.Column) else None
        if isinstance(star, exp.Star):
            if any(star.args.get(k) for k in ("except_", "except", "replace", "rename")):
                raise self.parsed.error(item, "* EXCEPT is not supported yet", "name the columns")
            yield from (_plain(c) for c in self._starred(item))
            return
        if isinstance(item, exp.Aliases):
            raise self.parsed.error(item, "functions that make rows are not supported yet", _AFTERWARDS)
        node = item.this if isinstance(item, exp.Alias) else item
        if any(isinstance(s, exp.Star) for s in node.find_all(exp.Star)):
            raise self.parsed.error(node, "* can't stand here", "name the columns")
        columns = self._columns(node, self.entries)
        bare = node.unnest()
        column = self.resolved[id(bare)] if isinstance(bare, exp.Column) else None
        plain = column.column if column is not None and not column.fields else None
        name = (
            item.alias
            if isinstance(item, exp.Alias)
            else spark_name(node, lambda n: self._text(n, named=False), self._name_of)
        )
        needs = tuple(dict.fromkeys(r.column for r in columns))
        yield OutputColumn(name, self._text(node), plain, needs)

    def _name_of(self, node: exp.Column) -> str:
        """Spark names a column as the query writes it, not as its source does."""
        return str(node.parts[-1].name)

    def _starred(self, item: exp.Expr) -> list[Column]:
        if isinstance(item, exp.Star):
            return self.visible
        owner = item.table if isinstance(item, exp.Column) else ""
        found = _named(owner, [e.input.alias for e in self.entries])
        if not found:
            raise self.parsed.error(item, f"no input '{owner}' in FROM",
                                    did_you_mean(owner, [e.input.alias for e in self.entries]))  # fmt: skip
        entry = next(e for e in self.entries if e.input.alias == found[0])
        return [Column(found[0], n) for n in entry.input.spec.schema.names]


_AFTERWARDS = "compute it on the DataFrame that the query gives"
_INSTEAD = {
    "group": "group the DataFrame that the query gives", "order": "a stream has no end to sort at",
    "limit": "limit the DataFrame that the query gives", "distinct": "drop duplicates in the DataFrame it gives",
    "having": "filter the DataFrame that the query gives", "windows": "a window for the query is WINDOW 10 SECONDS",
}  # fmt: skip


def _split(node: exp.Expr) -> Iterator[exp.Expr]:
    """The conjuncts of a condition."""
    waiting = [node]
    while waiting:
        inner = waiting.pop().unnest()
        if isinstance(inner, exp.And):
            waiting += [inner.expression, inner.this]
        else:
            yield inner


def _implied(columns: list[Column], type: pa.DataType) -> Iterator[Filter]:
    """Two columns of one input in one class are equal to each other."""
    for alias in dict.fromkeys(c.input for c in columns):
        own = [c for c in columns if c.input == alias]
        for other in own[1:]:
            text = f"{_sql(own[0])} = {_sql(other)}"
            sides = [Field(type, c.name) for c in (own[0], other)]
            yield Filter(alias, text, (own[0].name, other.name), Condition(text, Compare(BOOL, "=", *sides)))


def _runs(condition: Expression, columns: Iterable[Resolved], key: Callable[[Column], Any]) -> bool:
    """Whether Arrow has kernels for these types: tried without rows, because it tells only when asked."""
    try:
        Condition("", condition)({key(r.column): pa.nulls(0, r.type) for r in columns} or {"": pa.nulls(0)})
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError):
        return False
    return True


def _holds(condition: Expression) -> bool:
    """Whether a condition over no columns is true."""
    if isinstance(condition, Constant):
        return condition.value is True
    try:
        return bool(Condition("", condition)({"": pa.nulls(1)})[0].as_py() is True)
    except ThalwegError:
        return False


def _plain(column: Column) -> OutputColumn:
    return OutputColumn(column.name, _sql(column), column, (column,))


def _sql(column: Column) -> str:
    return f"{quoted(column.input)}.{quoted(column.name)}"


def _field_type(schema: pa.Schema, name: str) -> pa.DataType:
    return schema.field(schema.names.index(name)).type


def _named(name: str, known: Iterable[str]) -> list[str]:
    """The names that are meant: the very same, else those that differ in case alone."""
    known = list(known)
    exact = [n for n in known if n == name]
    return exact[:1] or [n for n in known if n.lower() == name.lower()]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"'{n}'" for n in names)


def _either(names: list[str]) -> str:
    return " or ".join(names)
