"""The names that a query can mention, and what they stand for.

A name means the column or input spelled exactly like it, else the one that differs only in case. Invariant: a name
that could mean two things is an error, never a guess; columns that are set equal are one thing.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from thalweg.errors import QueryError, did_you_mean
from thalweg.language.algebra import RESULT_TIME
from thalweg.language.bind.entry import Entry
from thalweg.language.bind.world import World
from thalweg.language.query import Column
from thalweg.language.scalar.compile import Resolved
from thalweg.language.scalar.types import logical
from thalweg.language.text.parse import name_span
from thalweg.language.text.quoting import quoted, quoted_column
from thalweg.language.text.underline import Span


class _Unknown(Exception):
    """No such name here; perhaps further out."""

    def __init__(self, error: QueryError) -> None:
        super().__init__()
        self.error = error


class Scope:
    """The entries of FROM, and what the names in the text resolve to. A name that is unknown here may be known to the
    block around it: then the block is correlated."""

    def __init__(self, world: World, entries: Sequence[Entry], outer: Scope | None = None) -> None:
        self.world = world
        self.parsed = world.parsed
        self.functions = world.called
        self.entries = entries
        self.outer = outer
        self.resolved: dict[int, Resolved] = {}
        """By the identity of a node: what it stands for. Written by `stands` alone."""
        self._alive: list[exp.Expr] = []
        """The nodes in `resolved`: of a node that is gone, another one could have the identity."""
        self.visible: list[Column] = []
        """The columns of SELECT *."""
        self._hidden: set[Column] = set()
        """Columns that USING merged into another one: found only with their alias."""
        self.equal: list[tuple[Column, Column]] = []
        """Columns that WHERE or an inner join's ON sets equal."""
        self._types: dict[Column, pa.DataType] = {}
        self.windowed = False
        """Whether GROUP BY window(...) makes the column `window`."""
        self.outermost = False
        self.grouped: set[str] | None = None
        """Above a group: its columns."""

    def order(self, alias: str) -> int:
        return next((i for i, e in enumerate(self.entries) if e.alias == alias), len(self.entries))

    def type(self, column: Column) -> pa.DataType:
        if column not in self._types and self.outer is not None:
            return self.outer.type(column)
        return logical(self._types[column])

    def sources(self) -> list[Entry]:
        """The entries that are sources, with those of queries that were merged into the block."""
        merged = [e for entry in self.entries if entry.part is not None for e in entry.part.entries]
        return [e for e in (*self.entries, *merged) if e.input is not None]

    def know(self, entries: Iterable[Entry]) -> None:
        """Learn the types of columns; also of entries that no name of this block means."""
        for e in entries:
            self._types.update({Column(e.alias, f.name): f.type for f in e.schema})

    def show(self, entry: Entry) -> None:
        """Add an entry's columns to SELECT *."""
        self.visible += [entry.column(n) for n in entry.starred]

    def using(
        self, nodes: Sequence[exp.Expr], left: Sequence[Entry], right: Sequence[Entry], keep_right: bool
    ) -> list[tuple[Column, Column, exp.Expr]]:
        """Merge the columns that USING names, in SELECT * and for plain names; the equalities that it asks for."""
        try:
            equal = [(self._lookup(n.name, left, n), self._lookup(n.name, right, n), n) for n in nodes]
        except _Unknown as unknown:
            raise unknown.error from None
        merged = [b if keep_right else a for a, b, _ in equal]
        dropped = {a if keep_right else b for a, b, _ in equal}
        self._hidden |= dropped
        self.visible = [*merged, *(c for c in self.visible if c not in merged and c not in dropped)]
        return equal

    def withdraw(self, entries: Iterable[Entry]) -> None:
        """Take entries out of SELECT *: the right side of a semi join."""
        gone = {e.column(n) for e in entries for n in e.names}
        self.visible = [c for c in self.visible if c not in gone]

    def stands(self, node: exp.Expr, resolved: Resolved) -> None:
        """From now on a node is what it resolves to; it stays alive as long as that is known."""
        self._alive.append(node)
        self.resolved[id(node)] = resolved

    def columns(self, node: exp.Expr, entries: Sequence[Entry], timed: bool = False) -> list[Resolved]:
        """Resolve all columns below a node, in written order; the time of the result, where it is known, is none."""
        found = [
            c for c in own(node, self.resolved)
            if isinstance(c, exp.Column) and not isinstance(c.this, exp.Star) and c.arg_key != "unit"
        ]  # fmt: skip
        if timed:
            found = [c for c in found if not self.is_time(c) and not self._is_window(c)]
        found.sort(key=lambda c: name_start(c) or 0)
        for column in found:
            if id(column) not in self.resolved:
                self.stands(column, self.resolve(column, entries))
        return [self.resolved[id(c)] for c in found]

    def resolve(self, node: exp.Column, entries: Sequence[Entry]) -> Resolved:
        """What a name stands for, here or in a block around this one."""
        try:
            return self._resolve(node, entries)
        except _Unknown as unknown:
            scope = self.outer
            while scope is not None:
                try:
                    return scope._resolve(node, scope.entries)
                except _Unknown:
                    scope = scope.outer
            raise unknown.error from None

    def is_time(self, node: exp.Expr) -> bool:
        """Whether a name is the pseudo-column `result_time`; an input's own column of that name comes first."""
        named = isinstance(node, exp.Column) and len(node.parts) == 1 and node.name.lower() == RESULT_TIME
        return named and self.outermost and not any(matching(RESULT_TIME, e.starred) for e in self.entries)

    def _is_window(self, node: exp.Column) -> bool:
        """Whether a name is the column that GROUP BY window(...) makes."""
        if not self.windowed or node.parts[0].name.lower() != "window":
            return False
        return not any(matching("window", [e.name, *e.names]) for e in self.entries)

    def text(self, node: exp.Expr, named: bool = True) -> str:
        """The node's own text, every column under its full name; or, as Spark names outputs, under its last part."""
        span = self.parsed.span(node)
        if span is None:
            return str(node.sql("spark"))
        replaced: dict[int, tuple[int, str]] = {}
        for column in (c for c in own(node) if isinstance(c, exp.Column)):
            resolved = self.resolved.get(id(column))
            places = [place for p in column.parts if (place := name_span(p)) is not None]
            if resolved is not None and places:
                whole = Span(min(p.start for p in places), max(p.end for p in places))
                full = ".".join([quoted_column(resolved.column), *(quoted(f) for f in resolved.fields)])
                replaced[whole.start] = (whole.end, full if named else str(column.parts[-1].name))
        return self.parsed.rendered(span, replaced, quotes=named)

    def _lookup(self, name: str, entries: Sequence[Entry], node: exp.Expr, hidden: bool = False) -> Column:
        """The one column of that name."""
        every = [(n, e.column(n), e) for e in entries for n in e.names if hidden or e.column(n) not in self._hidden]
        found = [f for f in every if f[0] == name] or [f for f in every if f[0].lower() == name.lower()]
        if len(found) > 1 and not self._same([c for _, c, _ in found]):
            shown = [f"{quoted(e.name)}.{quoted(n)}" for n, _, e in found]
            raise self.parsed.error(node, f"'{name}' is ambiguous", f"write {' or '.join(shown)}")
        if found:
            return found[0][1]
        known = list(dict.fromkeys(n for e in entries for n in e.names))
        said = f"'{entries[0].name}' has no column '{name}'" if len(entries) == 1 else f"no column '{name}'"
        hint = did_you_mean(name, known)
        place = name_span(node.this) if isinstance(node, exp.Column) else None
        if place is not None and self.parsed.text[place.start] == '"':
            hint = f"write texts in single quotes: '{name}'; double quotes are for names"
        raise _Unknown(self.parsed.error(node, said, hint))

    def _same(self, columns: Sequence[Column]) -> bool:
        """Whether columns of one type are set equal, so that it makes no difference which of them a name means. Zeros of
        doubles are equal and yet not the same."""
        known, grows = {columns[0]}, True
        while grows:
            more = {c for pair in self.equal if known & set(pair) for c in pair} - known
            known, grows = known | more, bool(more)
        types = {self.type(c) for c in columns}
        return (
            len(set(columns)) == len(columns)
            and known.issuperset(columns)
            and len(types) == 1
            and not pt.is_floating(types.pop())
        )

    def _resolve(self, node: exp.Column, entries: Sequence[Entry]) -> Resolved:
        parts = [p.name for p in node.parts]
        if len(parts) > 1:
            named = matching(parts[0], [e.name for e in entries])
            column = any(matching(parts[0], e.names) for e in entries)
            if named:
                owner = next(e for e in entries if e.name == named[0])
                if matching(parts[1], owner.names) or not column:
                    return self._member(node, self._lookup(parts[1], [owner], node, hidden=True), parts[2:])
            elif matching(parts[0], [e.name for e in self.entries]):
                raise self.parsed.error(node, f"'{parts[0]}' is joined later", "move this condition to WHERE")
            elif not column or self._named_outside(parts[0]):
                raise _Unknown(self.no_input(node, parts[0], entries))
        return self._member(node, self._lookup(parts[0], entries, node), parts[1:])

    def _named_outside(self, name: str) -> bool:
        """Whether an input of a block around this one has that name."""
        scope = self.outer
        while scope is not None and not matching(name, [e.name for e in scope.entries]):
            scope = scope.outer
        return scope is not None

    def no_input(self, node: exp.Expr, name: str, entries: Sequence[Entry]) -> QueryError:
        return self.parsed.error(node, f"no input '{name}' in FROM", did_you_mean(name, [e.name for e in entries]))

    def _member(self, node: exp.Column, column: Column, parts: list[str]) -> Resolved:
        """Walk into structs."""
        top = type = self._types[column]
        fields: list[str] = []
        for part in parts:
            if not pt.is_struct(type):
                raise self.parsed.error(node, f"'{'.'.join([column.name, *fields])}' has no fields, it is {type}")
            names = [type.field(i).name for i in range(type.num_fields)]
            found = matching(part, names)
            if len(found) != 1:
                raise self.parsed.error(node, f"no field '{part}' in '{column.name}'", did_you_mean(part, names))
            fields.append(found[0])
            type = type.field(type.get_field_index(found[0])).type
        return Resolved(column, top, tuple(fields))


def own(node: exp.Expr, known: Container[int] = ()) -> Iterator[exp.Expr]:
    """A node and all below it, except for what stands in queries of its own, or below a node that is known already."""
    waiting = [node]
    while waiting:
        part = waiting.pop()
        yield part
        if id(part) not in known or isinstance(part, exp.Column):
            waiting += [c for c in part.iter_expressions() if not isinstance(c, exp.Query)]


def matching(name: str, known: Iterable[str]) -> list[str]:
    """The names that are meant: the very same, else those that differ only in case."""
    known = list(known)
    return [n for n in known if n == name][:1] or [n for n in known if n.lower() == name.lower()]


def field_type(schema: pa.Schema, name: str) -> pa.DataType:
    return schema.field(schema.names.index(name)).type


def name_start(node: exp.Expr) -> int | None:
    """Where the first name below a node starts."""
    starts = [i.meta["start"] for i in node.find_all(exp.Identifier) if "start" in i.meta]
    return min(starts, default=None)


def listed(names: Iterable[str]) -> str:
    return ", ".join(f"'{n}'" for n in names)
