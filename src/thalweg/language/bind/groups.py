"""GROUP BY: the keys and aggregates of a block as a Group, and what SELECT and HAVING mean above it.

Every grouped expression and every aggregate becomes a column of the group; the nodes of the text that mean it are read
as that column (`Scope.resolved`), so SELECT, HAVING and ORDER BY compile as if they stood over a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from thalweg.errors import QueryError
from thalweg.language.algebra import Aggregate, Distinct, Group, Hop, Node
from thalweg.language.bind.aggregates import aggregates_in, called, result_type
from thalweg.language.bind.columns import appended, projected
from thalweg.language.bind.conditions import compiled_value_of, foresee, only_spark
from thalweg.language.bind.hops import hop_of
from thalweg.language.bind.output import Item
from thalweg.language.bind.scope import Scope, own
from thalweg.language.query import Column
from thalweg.language.scalar.compile import OnlySpark, Resolved
from thalweg.language.scalar.expression import Expression, Field
from thalweg.language.scalar.written import written

_SETS = {exp.Rollup: "ROLLUP", exp.Cube: "CUBE", exp.GroupingSets: "GROUPING SETS"}


class Grouping:
    """Makes the group of one block."""

    def __init__(self, scope: Scope, select: exp.Select, chosen: Sequence[Item], also: Sequence[exp.Expr]) -> None:
        self._scope = scope
        self._world = scope.world
        self._parsed = scope.parsed
        self._items = chosen
        self._also = also
        self._group = select.args.get("group")
        self._canonical: dict[Any, Resolved] = {}
        self._computed: dict[str, Expression] = {}
        self._kept: dict[Expression, str] = {}
        self.keys: list[str] = []
        self.fields: list[pa.Field] = []
        self.aggregates: dict[str, Aggregate] = {}

    @property
    def _above(self) -> list[exp.Expr]:
        """What stands over the group: items of SELECT, HAVING and ORDER BY, with what took the place of subqueries."""
        return [*(i.value for i in self._items if i.column is None), *self._also]

    def node(self, child: Node, correlated: Sequence[tuple[exp.Expr, str]] = ()) -> Node:
        """The group over a child; `correlated` are further keys, with their names."""
        hop: tuple[exp.Expr, Hop] | None = None
        for node in self._grouped():
            found = hop_of(self._scope, node, child)
            if found is not None:
                if hop is not None:
                    raise self._parsed.error(node, "only one window(...) in GROUP BY")
                hop = (node, found)
                child = found
                self._name(node, found.name, found.schema.field(found.name).type)
            else:
                self._key(node)
        for node, name in correlated:
            self._key(node, name)
        self._read()
        for node in self._above:
            for call in aggregates_in(self._world, node):
                if id(call) not in self._scope.resolved:
                    self._aggregate(call)
        for node in self._above:
            self._check(node)
        child = appended(child, self._computed)
        if not self.aggregates and self.keys:
            kept = {n: Field(child.schema.field(n).type, n) for n in self.keys}
            return Distinct(pa.schema(self.fields), projected(child, kept))
        return Group(pa.schema(self.fields), child, tuple(self.keys), dict(self.aggregates))

    def below(self) -> list[exp.Expr]:
        """What is computed before rows are grouped: keys, and arguments of aggregates."""
        calls = [c for n in self._above for c in aggregates_in(self._world, n)]
        return [*self._grouped(), *(a for c in calls for a in called(self._world, c).arguments)]

    def foresee(self) -> None:
        """Find out what only Spark can compute, before the block is built."""
        for node in self.below():
            try:
                self._scope.columns(node, self._scope.entries, timed=True)
            except QueryError:
                continue  # it comes again where the node is bound
            foresee(self._scope, node)

    # Keys

    def _grouped(self) -> Iterator[exp.Expr]:
        """The expressions of GROUP BY; a number means an item of SELECT, and so does an alias that is no column."""
        if self._group is None:
            return
        for part in self._group.walk():
            if isinstance(part, exp.Rollup | exp.Cube | exp.GroupingSets):
                raise self._parsed.error(part, f"{_SETS[type(part)]} is not supported",
                                         "write one query for each grouping and join them with UNION ALL")  # fmt: skip
        if self._group.args.get("all"):
            for item in self._items:
                node = item.value
                if next(aggregates_in(self._world, node), None) is None:
                    yield node
            return
        for node in self._group.expressions:
            yield self._meant(node)

    def _meant(self, node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Literal) and not node.is_string:
            place = int(node.this) if str(node.this).isdecimal() else 0
            if not 1 <= place <= len(self._items):
                raise self._parsed.error(node, f"SELECT has no column number {node.this}")
            item = self._items[place - 1]
            if item.column is not None:
                raise self._parsed.error(node, "this number means a column of *", "name the column")
            return item.value
        named = [i for i in self._items if isinstance(node, exp.Column) and len(node.parts) == 1
                 and isinstance(i.node, exp.Alias) and i.name.lower() == node.name.lower()]  # fmt: skip
        known = any(n.lower() == node.name.lower() for e in self._scope.entries for n in e.names)
        return named[0].node.this if named and not known else node

    def _key(self, node: exp.Expr, name: str = "") -> None:
        if isinstance(node, exp.Anonymous) and node.name.lower() == "session_window":
            raise self._parsed.error(node, "session_window is not supported",
                                     "window(result_time, '10 minutes'), or a window of your own in FROM")  # fmt: skip
        bad = self._inside(node)
        if bad is not None:
            raise self._parsed.error(bad, "an aggregate can't be a key of GROUP BY", "group by a column")
        self._scope.columns(node, self._scope.entries)
        value = self._value(node)
        column = self._column(value, name or written(value))
        if column not in self.keys:
            self.keys.append(column)
            self.fields.append(pa.field(column, value.type))
        self._canonical[canonical(self._scope, node)] = Resolved(Column("", column), value.type)

    def _inside(self, node: exp.Expr) -> exp.Expr | None:
        """An aggregate of this block below a node; those of a correlated subquery are columns already."""
        known = self._scope.resolved
        return next((found for found in aggregates_in(self._world, node) if id(found) not in known), None)

    def _name(self, node: exp.Expr, name: str, type: pa.DataType) -> None:
        """The column of window(...), which the text may also call `window`."""
        self.keys.append(name)
        self.fields.append(pa.field(name, type))
        self._canonical[canonical(self._scope, node)] = Resolved(Column("", name), type)
        for above in self._above:
            for part in own(above):
                if isinstance(part, exp.Column) and part.parts[0].name.lower() == "window":
                    fields = tuple(p.name.lower() for p in part.parts[1:])
                    if id(part) not in self._scope.resolved and all(
                        pt.is_struct(type) and type.get_field_index(f) >= 0 for f in fields
                    ):
                        self._scope.stands(part, Resolved(Column("", name), type, fields))

    def _value(self, node: exp.Expr) -> Expression:
        try:
            return compiled_value_of(self._scope, node)
        except OnlySpark as only:
            raise only_spark(self._scope, only, "it is needed before rows are grouped") from None

    def _column(self, value: Expression, name: str) -> str:
        """The column of the child that holds a value."""
        if isinstance(value, Field):
            return str(value.key)
        if value not in self._kept:
            self._kept[value] = self._world.name(name)
            self._computed[self._kept[value]] = value
        return self._kept[value]

    # What stands above

    def _read(self) -> None:
        """Read grouped expressions above as columns of the group, the largest first."""
        for node in self._above:
            waiting = [node]
            while waiting:
                part = waiting.pop()
                found = self._canonical.get(canonical(self._scope, part))
                if found is not None:
                    self._scope.stands(part, found)
                    continue
                if next(aggregates_in(self._world, part), None) is part:
                    continue
                waiting += [c for c in part.iter_expressions() if not isinstance(c, exp.Query)]

    def _aggregate(self, node: exp.Expr) -> None:
        call = called(self._world, node)
        for argument in call.arguments:
            inner = self._inside(argument)
            if inner is not None:
                raise self._parsed.error(inner, "an aggregate of an aggregate", "aggregate a subquery in FROM")
            self._scope.columns(argument, self._scope.entries)
        values = [self._value(a) for a in call.arguments]
        names = [self._column(v, written(v)) for v in values]
        type = result_type(self._world, node, call, [v.type for v in values])
        make = self._world.functions[call.function] if call.own else None
        wanted = Aggregate(call.function, tuple(names), call.distinct, make)
        name = next((n for n, a in self.aggregates.items() if a == wanted), None)
        if name is None:
            name = self._world.name(self._scope.text(node))
            self.aggregates[name] = wanted
            self.fields.append(pa.field(name, type))
        self._scope.stands(node, Resolved(Column("", name), type))

    def _check(self, node: exp.Expr) -> None:
        """Columns outside aggregates must be grouped."""
        known = self._scope.resolved
        for part in own(node, known):
            column = known[id(part)].column if id(part) in known else None
            if isinstance(part, exp.Column) and (column is None or column.input) and not self._scope.is_time(part):
                raise self._parsed.error(part, f"'{self._parsed.written(part)}' is neither grouped nor aggregated",
                                         "add it to GROUP BY, or aggregate it: max(...)")  # fmt: skip
        for item in self._items:
            if item.column is not None and item.column.name not in self.keys:
                found = self._canonical.get(("column", item.column, ()))
                if found is None:
                    raise self._parsed.error(item.node, f"'{item.name}' is neither grouped nor aggregated",
                                             "name the grouped columns instead of *")  # fmt: skip

    def starred(self, column: Column) -> Expression:
        """A column of * as a column of the group."""
        found = self._canonical[("column", column, ())]
        return Field(found.type, found.column.name)


def read(scope: Scope, node: exp.Expr) -> list[Resolved]:
    """The columns that an expression above a group reads."""
    found = [scope.resolved[id(p)] for p in own(node, scope.resolved) if id(p) in scope.resolved]
    return list(dict.fromkeys(found))


def canonical(scope: Scope, node: exp.Expr) -> Any:
    """A value that is equal for expressions that mean the same column, function and literals."""
    node = node.unnest()
    found = scope.resolved.get(id(node)) if isinstance(node, exp.Column) else None
    if found is not None:
        return ("column", found.column, found.fields)
    if isinstance(node, exp.Literal):
        return ("literal", node.this, node.is_string)
    return (type(node).__name__, tuple(_arguments(scope, node.args)))


def _arguments(scope: Scope, arguments: Mapping[str, Any]) -> Iterable[Any]:
    for key, value in sorted(arguments.items()):
        if isinstance(value, exp.Expr):
            yield key, canonical(scope, value)
        elif isinstance(value, list):
            yield key, tuple(canonical(scope, v) if isinstance(v, exp.Expr) else v for v in value)
        elif value not in (None, False):
            yield key, value.lower() if isinstance(value, str) else value
