"""FROM: every entry becomes an input (a source under an alias with its window) or a query, and joins become a part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from thalweg.errors import DefinitionError, did_you_mean
from thalweg.language.algebra import RESULT_TIME, Restream
from thalweg.language.bind.columns import renamed
from thalweg.language.bind.entry import Entry
from thalweg.language.bind.scope import field_type, listed, matching, name_start
from thalweg.language.bind.ticks import every
from thalweg.language.bind.times import time_type
from thalweg.language.bind.unsupported import clause_hint, clause_name
from thalweg.language.bind.views import View, Views
from thalweg.language.bind.world import World
from thalweg.language.durations import Micros
from thalweg.language.query import Input, Source, Window
from thalweg.language.text.quoting import quoted


class Entries:
    """Makes the entries of one FROM, in written order."""

    def __init__(self, world: World, select: exp.Select, views: Views) -> None:
        self._world = world
        self._parsed = world.parsed
        self._select = select
        self._views = views
        self.entries: list[Entry] = []
        self.by_node: dict[int, Entry] = {}
        """Which entry a table or subquery in FROM became."""
        self._tables(select.args["from_"].this)
        for join in select.args.get("joins") or []:
            self._tables(join.this)

    def _tables(self, node: exp.Expr) -> None:
        if isinstance(node, exp.Subquery) and not isinstance(node.this, exp.Query):
            self._name(node)
            self._tables(node.this)
        else:
            self._add(node)
        for join in node.args.get("joins") or []:
            self._tables(join.this)

    def _name(self, node: exp.Subquery) -> None:
        """(S [ROWS 1]) AS s is S [ROWS 1] AS s."""
        alias, inner = node.args.get("alias"), node.this
        if alias is None:
            return
        if inner.args.get("joins"):
            raise self._parsed.error(alias, "a join in parentheses can't have a name",
                                     "leave the name out: its inputs keep theirs; or write (SELECT ...) AS name")  # fmt: skip
        inner.set("alias", alias)
        node.set("alias", None)

    def _add(self, node: exp.Expr) -> None:
        parsed = self._parsed
        for key, value in node.args.items():
            if value and key not in ("this", "db", "catalog", "alias", "joins"):
                raise parsed.error(node, f"{clause_name(key)} is not supported", clause_hint(key))
        alias = node.args.get("alias")
        columns = [c.name for c in alias.args.get("columns") or []] if alias is not None else []
        if isinstance(node, exp.Subquery):
            entry = self._query(node)
        elif isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            view = self._views.find(node)
            position = name_start(node) or 0
            entry = self._of(node, node.alias or node.name, position, view) if view is not None else self._source(node)
        else:
            raise parsed.error(node, "only streams, tables and queries can stand in FROM", "name one of the sources")
        if alias is not None and columns:
            entry = self._called(entry, alias, columns)
        if any(other.name.lower() == entry.name.lower() for other in self.entries):
            place = node if alias is None else alias
            raise parsed.error(place, f"two inputs are called '{entry.name}'",
                               f"give one of them another name: {entry.name} AS {entry.name}_2"
                               if not isinstance(node, exp.Table) else
                               f"give one of them another name: {node.this.name} AS {entry.name}_2")  # fmt: skip
        self._world.places.add(entry.position)
        self.entries.append(entry)
        self.by_node[id(node)] = entry

    # Queries

    def _query(self, node: exp.Subquery) -> Entry:
        start = self._parsed.span(node)
        return self._of(node, node.alias, start.start if start is not None else -1, View(node.this, self._views))

    def _of(self, node: exp.Expr, name: str, position: int, view: View) -> Entry:
        """The entry of a query: its inputs join this block, or it stays a node of its own."""
        level = self._parsed.level(view.query)
        name = name or f"query_{len(self.entries) + 1}"
        window = self._parsed.windows.get(position)
        if window is not None and level.stream is None:
            raise self._parsed.error(
                window.span, "this is a relation, it has no window",
                "put windows on the streams inside, or make it a stream first: ISTREAM(SELECT ...) [RANGE 1 HOUR]",
            )  # fmt: skip
        if level.stream is None and view.uses == 1:
            merged = view.merged()
            if merged is not None:
                part, columns, schema = merged
                alias = self._world.alias(name)
                return Entry(name, alias, schema, node, position, merged=columns, part=part)
        bound = view.bound()
        alias = self._world.alias(name)
        if level.stream is not None:
            if RESULT_TIME in bound.schema.names:
                raise self._parsed.error(node, "a column of a stream can't be called result_time", "rename it")
            schema = pa.schema([*bound.schema, pa.field(RESULT_TIME, time_type(bound))])
            window_of = self._window(Entry(name, alias, schema, node, position), None)
            bound = Restream(schema, bound, level.stream[0], every(self._parsed, view.query, bound), window_of)
        entry = Entry(name, alias, bound.schema, node, position, timed=level.stream is not None)
        entry.child = renamed(bound, [f"{alias}.{n}" for n in bound.schema.names])
        return entry

    def _called(self, entry: Entry, alias: exp.Expr, columns: Sequence[str]) -> Entry:
        """An entry whose columns the text renames: q AS c (a, b)."""
        if entry.input is not None:
            raise self._parsed.error(alias, "new names for the columns of a source are not supported",
                                     "rename them in SELECT")  # fmt: skip
        if len(columns) != len(entry.starred):
            raise self._parsed.error(alias, f"{len(columns)} names for {len(entry.starred)} columns")
        if len({c.lower() for c in columns}) < len(columns):
            raise self._parsed.error(alias, "two columns have the same name")
        names = [*columns, *entry.names[len(entry.starred) :]]
        schema = pa.schema([pa.field(n, f.type) for n, f in zip(names, entry.schema, strict=True)])
        if entry.merged:
            entry.merged = dict(zip(names, entry.merged.values(), strict=True))
        if entry.child is not None:
            entry.child = renamed(entry.child, [f"{entry.alias}.{n}" for n in names])
        entry.schema = schema
        return entry

    # Sources

    def _source(self, node: exp.Table) -> Entry:
        parsed = self._parsed
        source, spec = named_source(self._world, node)
        name = node.alias or source.rpartition(".")[2]
        position = name_start(node) or 0
        mark = parsed.watermarks.get(position)
        if mark is not None:
            found = matching(mark.column, spec.schema.names)
            if len(found) != 1:
                raise parsed.error(mark.span, f"'{source}' has no column '{mark.column}'",
                                   did_you_mean(mark.column, spec.schema.names))  # fmt: skip
            spec = replace(spec, time=found[0], lateness=Micros(mark.delay))
        check_time(source, spec)
        entry = Entry(name, self._world.alias(name), spec.schema, node, position)
        entry.input = Input(entry.alias, source, spec, Window("unbounded"))
        entry.input = replace(entry.input, window=self._window(entry, entry.input))
        return entry

    def _window(self, entry: Entry, given: Input | None) -> Window:
        """The window of a stream; `given` is None for the stream that a query became."""
        parsed = self._parsed
        clause = parsed.windows.get(entry.position)
        if given is not None and not given.is_stream:
            if clause is not None:
                raise parsed.error(
                    clause.span, f"'{given.source}' is a table, it has no window",
                    "leave the window out: a table is always seen whole; or, if it is a stream, say which column is "
                    f"its time: {quoted(given.source)}=tw.stream(df, time=...)",
                )  # fmt: skip
            return given.window
        if clause is None:
            level = parsed.levels[parsed.start(self._select)]
            while level is not None and level.window is None:
                level = level.outer  # type: ignore[assignment]
            return level.window.window if level is not None and level.window is not None else Window("unbounded")
        if clause.window.kind == "custom":
            self._world.windows.add(clause.window.name)
            return replace(clause.window, ends=self._world.functions[clause.window.name])
        by: list[str] = []
        for name, span in zip(clause.window.by, clause.by, strict=False):
            found = matching(name, entry.names)
            if len(found) != 1:
                raise parsed.error(span, f"'{entry.name}' has no column '{name}'", did_you_mean(name, entry.names))
            by.append(found[0])
        return replace(clause.window, by=tuple(by))


def named_source(world: World, node: exp.Table) -> tuple[str, Source]:
    """The source that a name in FROM stands for, checked."""
    sources: Mapping[str, Source] = world.sources
    written = ".".join(p.name for p in node.parts)
    found = matching(written, sources)
    if not found:
        error = world.parsed.error(node.this, f"no stream or table '{written}'", did_you_mean(written, sources))
        error.missing = written
        raise error
    if len(found) > 1:
        raise world.parsed.error(node.this, f"'{written}' could be {listed(found)}", "write its exact case")
    name, spec = found[0], sources[found[0]]
    if not isinstance(spec, Source):
        raise DefinitionError(f"'{name}' is of type {type(spec).__name__}, not a Source")
    if not spec.schema.names:
        raise DefinitionError(f"'{name}' has no columns")
    return name, spec


def check_time(name: str, spec: Source) -> None:
    if spec.time is None:
        return
    if spec.time not in spec.schema.names:
        raise DefinitionError(f"'{name}' has no time column '{spec.time}'",
                              hint=did_you_mean(spec.time, spec.schema.names))  # fmt: skip
    time = field_type(spec.schema, spec.time)
    if not (pt.is_integer(time) or pt.is_timestamp(time) or pt.is_date(time)):
        raise DefinitionError(f"the time column '{spec.time}' of '{name}' is {time}",
                              hint="time is a timestamp, a date or an integer")  # fmt: skip
