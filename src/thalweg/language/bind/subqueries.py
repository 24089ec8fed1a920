"""Subqueries in conditions and in SELECT, as matches.

EXISTS and IN are semi joins, NOT EXISTS and NOT IN anti joins; inside other conditions they are marks. A scalar
subquery is one row beside all others; one that is correlated by equalities is grouped by its side of them and joined
(Kim 1982; with an outer join, so that count is 0 and the others NULL where there is no group).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from thalweg.language.algebra import Group, MatchKind, Node, Project, Single
from thalweg.language.bind.assemble import MARK
from thalweg.language.bind.columns import projected, renamed
from thalweg.language.bind.conditions import Conjunct, compiled_value_of, only_spark
from thalweg.language.bind.entry import Entry
from thalweg.language.bind.output import items
from thalweg.language.bind.part import Outer, Part, hung
from thalweg.language.bind.scope import Scope, matching, own
from thalweg.language.bind.views import Views
from thalweg.language.query import Column
from thalweg.language.scalar.checked import As
from thalweg.language.scalar.compile import OnlySpark, Resolved
from thalweg.language.scalar.expression import Expression, Field
from thalweg.language.scalar.types import BOOL, comparable, family, unified
from thalweg.language.scalar.types import only_spark as left_to_spark

if TYPE_CHECKING:
    from thalweg.language.bind.block import Block


class Subqueries:
    """The subqueries of one block: what they become, in the block's part."""

    def __init__(self, scope: Scope, views: Views) -> None:
        self._scope = scope
        self._world = scope.world
        self._parsed = scope.parsed
        self._views = views
        self._replaced: dict[int, exp.Expr] = {}
        """Subqueries that an expression over a group has replaced."""

    def match(self, node: exp.Expr) -> Outer | None:
        """A conjunct that is EXISTS or IN, perhaps negated, as a semi or anti join."""
        negated = isinstance(node, exp.Not)
        inner = node.this.unnest() if negated else node
        if isinstance(inner, exp.Exists) and isinstance(inner.this, exp.Query):
            return self._exists(inner, "anti" if negated else "semi")
        tested = _membership(inner)
        if tested is None:
            return None
        value, query, not_in = tested
        return self._member(inner, value, query, "anti" if negated != not_in else "semi")

    def within(self, part: Part, node: exp.Expr) -> tuple[exp.Expr, list[Resolved]]:
        """Hang the subqueries below an expression on a part; the expression, and the columns that stand for them."""
        found: list[Resolved] = []
        if isinstance(node, exp.Query):
            found = self._scalar(part, node)
            return self._replaced.get(id(node), node), found
        resolved = self._scope.resolved
        for inner in list(own(node, resolved)):
            if id(inner) in resolved:  # it stands in a group already
                continue
            if isinstance(inner, exp.Exists) and isinstance(inner.this, exp.Query):
                found.append(self._mark(part, inner, self._exists(inner, "mark")))
            elif (tested := _membership(inner)) is not None:
                value, query, not_in = tested
                if not_in:
                    raise self._parsed.error(inner, "<> ALL inside another condition is not supported", "write NOT IN")
                found.append(self._mark(part, inner, self._member(inner, value, query, "mark")))
            elif isinstance(inner, exp.Any | exp.All):
                if id(inner.parent) not in resolved:
                    raise self._parsed.error(inner, "ANY and ALL are supported as = ANY and <> ALL only",
                                             "compare with min(...) or max(...) of the subquery")  # fmt: skip
            elif not isinstance(inner, exp.In | exp.Exists):
                for query in [
                    c for c in inner.iter_expressions() if isinstance(c, exp.Query) and id(c) not in resolved
                ]:
                    found += self._scalar(part, query)
        return node, found

    # EXISTS and IN

    def _mark(self, part: Part, node: exp.Expr, outer: Outer) -> Resolved:
        outer.mark = self._world.name("exists" if isinstance(node, exp.Exists) else "member")
        part.outers.append(outer)
        resolved = Resolved(Column(outer.mark, MARK), BOOL)
        self._scope.resolved[id(node)] = resolved
        return resolved

    def _exists(self, node: exp.Exists, kind: MatchKind) -> Outer:
        block, part, _ = self._rows(node.this.unnest())
        return Outer(kind, part) if block is None else self._hung(kind, block)

    def _hung(self, kind: MatchKind, block: Block) -> Outer:
        self._near(block)
        block.part.simplify()
        outer = hung(kind, block.part, block.correlated, [])
        outer.scope = block.scope
        return outer

    def _rows(self, query: exp.Expr) -> tuple[Block | None, Part, list[Expression]]:
        """The rows of a query: the block of one that neither groups nor combines, whose rows are those of its join;
        else the whole query under an alias, and its columns."""
        block = None
        if isinstance(query, exp.Select):
            block = self._views.block(query, self._views.within(query), self._scope)
            if not block.grouped:
                return block, block.part, []
        entry = self._entry(block.relation() if block is not None else self._views.bound(query), query)
        return None, Part([entry]), [Field(f.type, f"{entry.alias}.{f.name}") for f in entry.schema]

    def _entry(self, bound: Node, query: exp.Expr, lone: bool = False) -> Entry:
        alias = self._world.alias("subquery")
        child = renamed(bound, [f"{alias}.{n}" for n in bound.schema.names])
        entry = Entry("the subquery", alias, bound.schema, query, child=child, lone=lone)
        self._scope.know([entry])
        return entry

    def _member(self, node: exp.Expr, value: exp.Expr, query: exp.Query, kind: MatchKind) -> Outer:
        """IN. The comparison comes last; for NOT IN and for marks it is unknown where a side is NULL."""
        block, part, right = self._rows(query.unnest())
        left, needs, row = self._tested(value)
        if block is None:
            outer = Outer(kind, part)
        else:
            right = self._selected(block, row)
            outer = self._hung(kind, block)
        if len(left) != len(right):
            raise self._parsed.error(node, f"{len(left)} columns are compared with {len(right)}")
        for a, b in zip(left, right, strict=True):
            shared = unified(a.type, b.type) if comparable(a.type, b.type) else None
            if shared is None or left_to_spark(shared):
                raise self._parsed.error(node, f"a {family(a.type)} can't be compared with a {family(b.type)}",
                                         f"left is {a.type}, right is {b.type}: CAST one of them")  # fmt: skip
            outer.compared.append((_as(a, shared), _as(b, shared)))
        outer.needs = needs
        outer.null_aware = kind in ("anti", "mark")
        if outer.null_aware and len(left) > 1:
            raise self._parsed.error(node, "NOT IN, and IN inside another condition, compare one column",
                                     "use NOT EXISTS with a condition for each column")  # fmt: skip
        return outer

    def _tested(self, value: exp.Expr) -> tuple[list[Expression], set[str], bool]:
        """What stands before IN: one value, several in parentheses, or a whole row of an input."""
        scope = self._scope
        value = value.unnest()
        entry = self._row(value)
        if entry is not None:
            time = entry.input.spec.time if entry.input is not None else None
            columns = [entry.column(n) for n in entry.starred if n != time]
            return [Field(scope.type(c), str(c)) for c in columns], {c.input for c in columns}, True
        nodes = value.expressions if isinstance(value, exp.Tuple) else [value]
        found = [r.column.input for n in nodes for r in scope.columns(n, scope.entries)]
        try:
            return [compiled_value_of(scope, n) for n in nodes], set(found), False
        except OnlySpark as only:
            raise only_spark(scope, only, "it is compared with a subquery") from None

    def _row(self, value: exp.Expr) -> Entry | None:
        """The input that a name before IN means, if it is no column."""
        if not isinstance(value, exp.Column) or len(value.parts) != 1:
            return None
        if any(matching(value.name, e.names) for e in self._scope.entries):
            return None
        named = matching(value.name, [e.name for e in self._scope.entries])
        return next((e for e in self._scope.entries if e.name in named), None)

    def _selected(self, block: Block, row: bool) -> list[Expression]:
        """The columns of a subquery's SELECT. Rows compare without their time, which is no attribute of theirs."""
        scope = block.scope
        times = {
            Column(e.alias, str(e.input.spec.time)) for e in scope.entries if e.input is not None and e.input.spec.time
        }
        found: list[Expression] = []
        for item in items(scope, block.select):
            node = item.value
            if item.column is not None:
                if not (row and item.column in times):
                    found.append(Field(scope.type(item.column), str(item.column)))
                continue
            self._inside(block, [r.column for r in scope.columns(node, scope.entries)], node)
            try:
                found.append(compiled_value_of(scope, node))
            except OnlySpark as only:
                raise only_spark(scope, only, "it is compared with IN") from None
        return found

    # Scalars

    def _scalar(self, part: Part, query: exp.Expr) -> list[Resolved]:
        inner = query.unnest()
        if isinstance(inner, exp.Select):
            block = self._views.block(inner, self._views.within(inner), self._scope)
            if block.correlated:
                return self._correlated(part, query, block)
            bound = block.relation()
        else:
            bound = self._views.bound(inner)
        if len(bound.schema) != 1:
            raise self._parsed.error(query, f"a subquery used as a value has one column, found {len(bound.schema)}")
        only = bound.child if isinstance(bound, Project) else bound
        if not (isinstance(only, Group) and not only.keys):
            bound = Single(bound.schema, bound)
        entry = self._entry(bound, query, lone=True)
        part.entries.append(entry)
        resolved = Resolved(Column(entry.alias, entry.names[0]), entry.schema.field(0).type)
        self._scope.resolved[id(query)] = resolved
        return [resolved]

    def _correlated(self, part: Part, query: exp.Expr, block: Block) -> list[Resolved]:
        """Group by the inner side of each equality, and join; the expression of SELECT takes the subquery's place."""
        select = block.select
        if not block.grouped or select.args.get("group") or select.args.get("having") or len(select.expressions) != 1:
            raise self._parsed.error(
                query, "a correlated subquery used as a value is one aggregate, without GROUP BY",
                "for a row of another input use LEFT JOIN; if there may be several, take max(...) of it",
            )  # fmt: skip
        self._near(block)
        sides = [self._sides(block, c) for c in block.correlated]
        alias = self._world.alias("subquery")
        keys = [f"key{i + 1}" for i in range(len(sides))]
        value = select.expressions[0]
        value = value.this if isinstance(value, exp.Alias) else value
        group, values = block.group([s for s, _ in sides], value)
        fields = dict(zip(keys, group.schema.names[: len(keys)], strict=True)) | {n: n for n in values.values()}
        child = projected(group, {f"{alias}.{n}": Field(group.schema.field(c).type, c) for n, c in fields.items()})
        schema = pa.schema([(n, group.schema.field(c).type) for n, c in fields.items()])
        entry = Entry("the subquery", alias, schema, query, child=child)
        scope = self._scope
        scope.know([entry])
        resolved: list[Resolved] = []
        for call, name in values.items():
            found = Resolved(Column(alias, name), schema.field(name).type)
            scope.resolved[id(call)] = found
            resolved.append(found)
        conditions = [
            self._joined(block, c, inner, Column(alias, k))
            for c, (inner, _), k in zip(block.correlated, sides, keys, strict=True)
        ]
        part.outers.append(hung("left", Part([entry]), conditions, []))
        self._replaced[id(query)] = query.replace(exp.Paren(this=value))
        for call, name in values.items():
            function = group.aggregates[name].function if isinstance(group, Group) else ""
            if function == "collect_list":
                raise self._parsed.error(call, "a list of a correlated subquery is not supported", "join in FROM")
            if function in ("count", "approx_count_distinct"):  # of no rows they are 0, the others NULL
                zero = exp.Coalesce(expressions=[exp.Literal.number(0)])
                call.replace(zero)
                zero.set("this", call)
        return resolved

    def _joined(self, block: Block, c: Conjunct, inner: exp.Expr, key: Column) -> Conjunct:
        """A correlated equality, with its inner side read as a key of the group."""
        scope = self._scope
        for node in own(c.node):
            if id(node) in block.scope.resolved:
                scope.resolved[id(node)] = self._above(block, block.scope.resolved[id(node)])
        resolved = Resolved(key, scope.type(key))
        scope.resolved[id(inner)] = scope.resolved[id(inner.unnest())] = resolved
        outside = [self._above(block, r) for r in c.columns if r.column.input not in block.aliases]
        return Conjunct(scope, c.node, c.text, [*outside, resolved], c.functions)

    def _above(self, block: Block, r: Resolved) -> Resolved:
        """A column as the query around a subquery knows it: above a group, as a column of the group."""
        outer = r.column.input and r.column.input not in block.aliases
        return Resolved(Column("", str(r.column)), r.type) if outer and self._scope.grouped is not None else r

    def _sides(self, block: Block, c: Conjunct) -> tuple[exp.Expr, exp.Expr]:
        """The inner and the outer side of a correlated equality."""
        if isinstance(c.node, exp.EQ):
            of = [
                {r.column.input for r in block.scope.columns(n, block.scope.entries)}
                for n in (c.node.this, c.node.expression)
            ]
            for i, (a, b) in enumerate((of, reversed(of))):
                if a and b and a <= block.aliases and not b & block.aliases:
                    return (c.node.this, c.node.expression) if i == 0 else (c.node.expression, c.node.this)
        raise self._parsed.error(
            c.node, "a subquery used as a value can be correlated by = alone, an inner side and an outer one",
            "join its inputs in FROM, and aggregate there",
        )  # fmt: skip

    # Correlation

    def _near(self, block: Block) -> None:
        """A correlated condition may mention the block itself and the one around it."""
        known = block.aliases | self._scope_aliases()
        own_aliases, grouped = self._scope_aliases(), self._scope.grouped
        for c in block.correlated:
            self._inside(block, [r.column for r in c.columns if r.column.input not in known], c.node)
            for column in (r.column for r in c.columns if r.column.input in own_aliases):
                if grouped is not None and str(column) not in grouped:
                    raise self._parsed.error(c.node, f"'{column}' is neither grouped nor aggregated",
                                             "add it to GROUP BY, or join in FROM")  # fmt: skip

    def _scope_aliases(self) -> set[str]:
        return {c.input for e in self._scope.entries for n in e.names for c in [e.column(n)]}

    def _inside(self, block: Block, columns: Sequence[Column], node: exp.Expr) -> None:
        far = next((c for c in columns if c.input not in block.aliases), None)
        if far is not None:
            raise self._parsed.error(
                node, f"'{far}' belongs to a query further out, and can't be used here",
                "WHERE of a subquery may mention the query around it, and nothing else of it may",
            )  # fmt: skip


def _membership(node: exp.Expr) -> tuple[exp.Expr, exp.Query, bool] | None:
    """What is tested, in which query, and whether the test is negated: IN, = ANY and <> ALL."""
    if isinstance(node, exp.In) and isinstance(node.args.get("query"), exp.Query):
        return node.this, node.args["query"], bool(node.args.get("negate"))
    if isinstance(node, exp.EQ | exp.NEQ):
        of = node.expression.unnest()
        wanted = exp.Any if isinstance(node, exp.EQ) else exp.All
        if isinstance(of, wanted) and isinstance(of.this, exp.Query):
            return node.this, of.this, isinstance(node, exp.NEQ)
    return None


def _as(value: Expression, type: pa.DataType) -> Expression:
    return value if value.type == type else As(type, value)
