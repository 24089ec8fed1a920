"""The names that a query can mention, and what they stand for.

A name means the column or input spelled exactly like it, else the one that differs only in case. Invariant: a name
that could mean two things is an error, never a guess.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from thalweg.errors import did_you_mean
from thalweg.language.functions import Signature
from thalweg.language.query import Column, Input
from thalweg.language.scalar.compile import Resolved
from thalweg.language.scalar.types import logical
from thalweg.language.text.parse import Parsed, name_span
from thalweg.language.text.quoting import quoted, quoted_column
from thalweg.language.text.underline import Span


@dataclass
class Entry:
    """One entry of FROM."""

    input: Input
    node: exp.Table
    join: exp.Join | None
    position: int
    """Where its name starts in the text."""
    crossed: bool = False
    """Written as CROSS JOIN."""

    @property
    def alias(self) -> str:
        return self.input.alias

    @property
    def names(self) -> list[str]:
        return list(self.input.spec.schema.names)


class Scope:
    """The entries of FROM, and what the names in the text resolve to."""

    def __init__(
        self, parsed: Parsed, entries: Sequence[Entry], functions: Mapping[str, tuple[str, Signature]]
    ) -> None:
        self.parsed = parsed
        self.entries = entries
        self.functions = functions
        """By stand-in: the name in the query, and how to call it."""
        self.resolved: dict[int, Resolved] = {}
        self.visible: list[Column] = []
        """The columns of SELECT *."""
        self._hidden: set[Column] = set()
        """Right-hand columns of USING: found only with their alias."""

    def entry(self, alias: str) -> Entry:
        return self.entries[self.order(alias)]

    def order(self, alias: str) -> int:
        return next(i for i, e in enumerate(self.entries) if e.alias == alias)

    def type(self, column: Column) -> pa.DataType:
        return logical(field_type(self.entry(column.input).input.spec.schema, column.name))

    def using(self, entry: Entry) -> list[tuple[Column, Column, exp.Expr]]:
        """Add an entry's columns to SELECT *, merged by USING; the equalities that USING asks for."""
        left = self.entries[: self.order(entry.alias)]
        nodes = entry.join.args.get("using") or [] if entry.join is not None else []
        equal: list[tuple[Column, Column, exp.Expr]] = []
        for node in nodes:
            equal.append((self._lookup(node.name, left, node), self._lookup(node.name, [entry], node), node))
            self._hidden.add(equal[-1][1])
        merged = [a for a, _, _ in equal]
        dropped = {b for _, b, _ in equal}
        own = [c for c in (Column(entry.alias, n) for n in entry.names) if c not in dropped]
        self.visible = [*merged, *(c for c in self.visible if c not in merged), *own]
        return equal

    def columns(self, node: exp.Expr, entries: Sequence[Entry]) -> list[Resolved]:
        """Resolve all columns below a node, in written order."""
        found = [c for c in node.find_all(exp.Column) if not isinstance(c.this, exp.Star) and c.arg_key != "unit"]
        found.sort(key=lambda c: name_start(c) or 0)
        for column in found:
            self.resolved[id(column)] = self._resolve(column, entries)
        return [self.resolved[id(c)] for c in found]

    def text(self, node: exp.Expr, named: bool = True) -> str:
        """The node's own text, every column under its full name; or, as Spark names outputs, under its last part."""
        span = self.parsed.span(node)
        if span is None:
            return str(node.sql("spark"))
        replaced: dict[int, tuple[int, str]] = {}
        for column in node.find_all(exp.Column):
            resolved = self.resolved.get(id(column))
            places = [place for p in column.parts if (place := name_span(p)) is not None]
            if resolved is not None and places:
                whole = Span(min(p.start for p in places), max(p.end for p in places))
                full = ".".join([quoted_column(resolved.column), *(quoted(f) for f in resolved.fields)])
                replaced[whole.start] = (whole.end, full if named else str(column.parts[-1].name))
        return self.parsed.rendered(span, replaced, quotes=named)

    def _lookup(self, name: str, entries: Sequence[Entry], node: exp.Expr, hidden: bool = False) -> Column:
        """The one column of that name."""
        every = [Column(e.alias, n) for e in entries for n in e.names]
        every = [c for c in every if hidden or c not in self._hidden]
        found = [c for c in every if c.name == name] or [c for c in every if c.name.lower() == name.lower()]
        if len(found) > 1:
            raise self.parsed.error(node, f"'{name}' is ambiguous", f"write {' or '.join(map(str, found))}")
        if found:
            return found[0]
        known = list(dict.fromkeys(n for e in entries for n in e.names))
        shown = f"'{entries[0].alias}' has no column '{name}'" if len(entries) == 1 else f"no column '{name}'"
        hint = did_you_mean(name, known)
        place = name_span(node.this) if isinstance(node, exp.Column) else None
        if place is not None and self.parsed.text[place.start] == '"':
            hint = f"write texts in single quotes: '{name}'; double quotes are for names"
        raise self.parsed.error(node, shown, hint)

    def _resolve(self, node: exp.Column, entries: Sequence[Entry]) -> Resolved:
        parts = [p.name for p in node.parts]
        if len(parts) > 1:
            aliases = matching(parts[0], [e.alias for e in entries])
            column = any(matching(parts[0], e.names) for e in entries)
            if aliases:
                owner = self.entry(aliases[0])
                if matching(parts[1], owner.names) or not column:
                    return self._member(node, self._lookup(parts[1], [owner], node, hidden=True), parts[2:])
            elif matching(parts[0], [e.alias for e in self.entries]):
                raise self.parsed.error(node, f"'{parts[0]}' is joined later", "move this condition to WHERE")
            elif not column:
                raise self.no_input(node, parts[0], entries)
        return self._member(node, self._lookup(parts[0], entries, node), parts[1:])

    def no_input(self, node: exp.Expr, name: str, entries: Sequence[Entry]) -> Exception:
        return self.parsed.error(node, f"no input '{name}' in FROM", did_you_mean(name, [e.alias for e in entries]))

    def _member(self, node: exp.Column, column: Column, parts: list[str]) -> Resolved:
        """Walk into structs."""
        top = type = field_type(self.entry(column.input).input.spec.schema, column.name)
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
