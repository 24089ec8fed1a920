"""One SELECT block: its FROM and WHERE as a part, its groups, its output; as a relation, or as what is merged elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from sqlglot import exp

from thalweg.language.algebra import RESULT_TIME, Distinct, Node
from thalweg.language.bind.aggregates import aggregates_in
from thalweg.language.bind.assemble import Assembly
from thalweg.language.bind.columns import projected
from thalweg.language.bind.conditions import Conjunct, compiled_value_of, conjunct, foresee, only_spark, split
from thalweg.language.bind.entry import Entry
from thalweg.language.bind.from_clause import Entries
from thalweg.language.bind.groups import Grouping, read
from thalweg.language.bind.joins import Joins
from thalweg.language.bind.keys import key_pair
from thalweg.language.bind.output import Item, items
from thalweg.language.bind.over import over
from thalweg.language.bind.part import Part
from thalweg.language.bind.scope import Scope, own
from thalweg.language.bind.subqueries import Subqueries
from thalweg.language.bind.unsupported import refuse_clauses, refuse_in
from thalweg.language.bind.views import Merged, Views
from thalweg.language.bind.world import World
from thalweg.language.query import Column
from thalweg.language.scalar.compile import OnlySpark
from thalweg.language.scalar.expression import Expression, Field
from thalweg.language.scalar.written import written


@dataclass
class Answer:
    """The rows of a block, and its output columns: a column of the node or RESULT_TIME, under each name."""

    node: Node
    columns: list[tuple[str, str]]
    sorted: list[str] = field(default_factory=list)
    """The columns for each expression of ORDER BY."""


class Block:
    """A SELECT block in its place: inside `outer`, if it is a subquery of a condition."""

    def __init__(
        self, world: World, select: exp.Select, views: Views, outer: Scope | None, outermost: bool = False
    ) -> None:
        refuse_clauses(world.parsed, select, outermost)
        self.world = world
        self.select = select
        entries = Entries(world, select, views)
        self.scope = Scope(world, entries.entries, outer)
        self.scope.outermost = outermost
        self.scope.know(entries.entries)
        for entry in entries.entries:
            if entry.part is not None:
                self.scope.know(entry.part.entries)
        self.subqueries = Subqueries(self.scope, views)
        self.correlated: list[Conjunct] = []
        """Conjuncts of WHERE that mention the block around."""
        joins = Joins(self.scope, select, entries.by_node, self.condition)
        self.part = joins.part
        where = select.args.get("where")
        if where is not None:
            self.condition(self.part, where.this, self.scope.entries)
        equal = (key_pair(c) for c in self.part.conditions if len(c.inputs) > 1)
        self.scope.equal = [(pair[0], pair[1]) for pair in equal if pair is not None]
        group = select.args.get("group")
        self.scope.windowed = group is not None and any(
            isinstance(n, exp.Anonymous) and n.name.lower() == "window" for n in own(group)
        )
        above = [*select.expressions, *([select.args["having"].this] if select.args.get("having") else [])]
        self.grouped = group is not None or any(next(aggregates_in(world, n), None) is not None for n in above)

    @property
    def aliases(self) -> set[str]:
        """The inputs of the block itself, with those of queries that were merged into it."""
        merged = {c.input for e in self.scope.entries for n in e.names for c in [e.column(n)]}
        return merged | self.part.aliases | {e.alias for e in self.scope.entries}

    def condition(self, part: Part, node: exp.Expr, entries: Sequence[Entry]) -> None:
        """Add the conjuncts of WHERE, or of an inner join's ON, to a part."""
        for piece in split(node):
            match = self.subqueries.match(piece)
            if match is not None:
                match.below = part.aliases
                part.outers.append(match)
                continue
            whole, inner = self.subqueries.within(part, piece)
            found = conjunct(self.scope, whole, entries, inner)
            known = {c.input for e in self.scope.entries for n in e.names for c in [e.column(n)]} | part.aliases
            own_only = all(r.column.input in known or r in inner for r in found.columns)
            (part.conditions if own_only else self.correlated).append(found)

    # What becomes of it

    def merged(self) -> Merged | None:
        """Its inputs and conditions, if it is nothing but a join that gives plain columns."""
        plain = not (self.grouped or self.select.args.get("distinct") or self.part.outers or self.part.fulls)
        if not plain or self.correlated or any(e.child is not None for e in self.part.entries):
            return None
        columns: dict[str, Column] = {}
        for item in items(self.scope, self.select):
            node = item.value
            bare = self.scope.resolved.get(id(node.unnest()))
            column = item.column or (bare.column if bare is not None and not bare.fields else None)
            if column is None or column in columns.values():
                return None
            columns[item.name] = column
        schema = pa.schema([(name, self.scope.type(c)) for name, c in columns.items()])
        return self.part, columns, schema

    def relation(self) -> Node:
        """Its rows, under the names of SELECT."""
        if self.correlated:
            c = self.correlated[0]
            raise self.world.parsed.error(
                c.node, "this mentions the query around, and can't be used here",
                "only EXISTS, IN and single aggregates may be correlated: join in FROM instead",
            )  # fmt: skip
        answer = self.answer(())
        return answer.node

    def answer(self, order: Sequence[exp.Expr]) -> Answer:
        """Its rows and output columns, with hidden ones for ORDER BY."""
        chosen = items(self.scope, self.select)
        for item in chosen:
            refuse_in(self.scope, item.node, selected=True)
        having = self.select.args.get("having")
        if self.grouped:
            node, starred = self._grouped(chosen, order)
        else:
            if having is not None:
                raise self.world.parsed.error(having, "HAVING without GROUP BY or an aggregate", "use WHERE")
            node, starred = self._joined(chosen, order)
        columns: dict[str, Expression] = {}
        output: list[tuple[str, str]] = []
        for item in chosen:
            value = item.value
            if item.column is None and self.scope.is_time(value.unnest()):
                output.append((item.name, RESULT_TIME))
                continue
            timed = next((n for n in own(value, self.scope.resolved) if self.scope.is_time(n)), None)
            if timed is not None:
                raise self.world.parsed.error(
                    timed, "result_time stands alone in this SELECT: it is known only when the row leaves",
                    "SELECT result_time AS t, and compute with it on the DataFrame that the query gives",
                )  # fmt: skip
            columns[item.name] = starred[item.column] if item.column is not None else self._value(value)
            output.append((item.name, item.name))
        hidden = self._sorted(order, chosen, columns)
        if self.select.args.get("distinct") is not None:
            extra = next((h for h in hidden if h not in [name for name, _ in output]), None)
            if extra is not None:
                raise self.world.parsed.error(
                    order[hidden.index(extra)], "with DISTINCT, only output columns can be sorted by"
                )
            found: Node = projected(node, columns)
            return Answer(Distinct(found.schema, found), output, hidden)
        return Answer(projected(node, columns), output, hidden)

    def group(self, keys: Sequence[exp.Expr], value: exp.Expr) -> tuple[Node, dict[exp.Expr, str]]:
        """The block grouped by some expressions, for a scalar subquery; and the column of each aggregate in it."""
        self.part.simplify()
        grouping = Grouping(self.scope, self.select, [], [value])
        self.scope.columns(value, self.scope.entries)
        grouping.foresee()
        child = Assembly(self.scope, self.part, instants=True).node()
        found = grouping.node(child, [(k, "key") for k in keys])
        calls = list(aggregates_in(self.world, value))
        return found, {c: self.scope.resolved[id(c)].column.name for c in calls}

    def _joined(self, chosen: Sequence[Item], order: Sequence[exp.Expr]) -> tuple[Node, dict[Column, Expression]]:
        nodes = self._with_scalars(self.part, chosen, order)
        for value in nodes:
            foresee(self.scope, value)
        self.part.simplify()
        distinct = self.select.args.get("distinct") is not None
        node = Assembly(self.scope, self.part, instants=distinct).node()
        node = over(self.scope, nodes, node)
        return node, {c: Field(self.scope.type(c), str(c)) for i in chosen if (c := i.column) is not None}

    def _grouped(self, chosen: Sequence[Item], order: Sequence[exp.Expr]) -> tuple[Node, dict[Column, Expression]]:
        having = self.select.args.get("having")
        if having is not None:
            self._aliased(having, chosen)
        also = [*([having.this] if having is not None else []), *(o for o in order if not self._names_item(o, chosen))]
        for node in also:
            self.scope.columns(node, self.scope.entries, timed=True)
        grouping = Grouping(self.scope, self.select, chosen, also)
        for node in grouping.below():
            self.subqueries.within(self.part, node)
        grouping.foresee()
        self.part.simplify()
        group = grouping.node(Assembly(self.scope, self.part, instants=not self.scope.windowed).node())
        entry = Entry("the group", "", group.schema, self.select, child=group)
        self.scope.know([entry])
        self.scope.grouped = set(group.schema.names)
        part = Part([entry])
        self._with_scalars(part, chosen, order)
        if having is not None:
            for piece in split(having.this):
                whole, inner = self.subqueries.within(part, piece)
                columns = [*read(self.scope, whole), *inner]
                part.conditions.append(Conjunct(self.scope, whole, self.scope.text(whole), columns, ()))
        part.simplify()
        node = Assembly(self.scope, part).node()
        windows = next((n for i in chosen for n in own(i.node) if isinstance(n, exp.Window)), None)
        if windows is not None:
            raise self.world.parsed.error(
                windows, "OVER beside GROUP BY is not supported", "group in a subquery in FROM"
            )
        starred = {c: grouping.starred(c) for i in chosen if (c := i.column) is not None}
        return node, starred

    def _aliased(self, having: exp.Expr, chosen: Sequence[Item]) -> None:
        """Put what SELECT calls by a name in the place of the name, where no column has it."""
        known = {n.lower() for e in self.scope.entries for n in e.names}
        called = {i.name.lower(): i for i in chosen if isinstance(i.node, exp.Alias)}
        for node in list(own(having)):
            if isinstance(node, exp.Column) and len(node.parts) == 1 and node.name.lower() not in known:
                item = called.get(node.name.lower())
                if item is not None:
                    node.replace(exp.Paren(this=item.value.copy()))

    def _with_scalars(self, part: Part, chosen: Sequence[Item], order: Sequence[exp.Expr]) -> list[exp.Expr]:
        """The expressions of SELECT and ORDER BY, with their subqueries hung on a part."""
        for item in chosen:
            if item.column is None:
                whole, _ = self.subqueries.within(part, item.value)
                item.node = item.node if isinstance(item.node, exp.Alias) else whole
        for node in order:
            self.subqueries.within(part, node)
        return [*(i.value for i in chosen if i.column is None), *order]

    def _value(self, node: exp.Expr) -> Expression:
        try:
            return compiled_value_of(self.scope, node)
        except OnlySpark as only:
            raise only_spark(self.scope, only, "the rest of the query needs it") from None

    def _names_item(self, node: exp.Expr, chosen: Sequence[Item]) -> Item | None:
        """The item of SELECT that an expression of ORDER BY means: by number, by name, or the same text."""
        if isinstance(node, exp.Literal) and not node.is_string and str(node.this).isdecimal():
            place = int(node.this)
            if not 1 <= place <= len(chosen):
                raise self.world.parsed.error(node, f"SELECT has no column number {place}")
            return chosen[place - 1]
        if isinstance(node, exp.Column) and len(node.parts) == 1:
            return next((i for i in chosen if i.name.lower() == node.name.lower()), None)
        return next((i for i in chosen if i.column is None and i.node == node), None)

    def _sorted(self, order: Sequence[exp.Expr], chosen: Sequence[Item], columns: dict[str, Expression]) -> list[str]:
        """A column for each expression of ORDER BY; one that is no output column is computed beside them."""
        found = []
        for node in order:
            item = self._names_item(node, chosen)
            if item is not None:
                found.append(item.name)
                continue
            if not self.grouped:
                self.scope.columns(node, self.scope.entries)
            value = self._value(node)
            name = self.world.name(written(value))
            columns[name] = value
            found.append(name)
        return found
