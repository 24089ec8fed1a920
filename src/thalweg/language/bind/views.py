"""WITH: named queries. One that is used several times is bound once, and its node is shared.

A name is known to the queries after it in the same WITH, to the query that the WITH belongs to, and to all inside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
from sqlglot import exp

from thalweg.language.algebra import Node
from thalweg.language.bind.part import Part
from thalweg.language.bind.scope import Scope, matching
from thalweg.language.bind.world import World
from thalweg.language.query import Column

if TYPE_CHECKING:
    from thalweg.language.bind.block import Block

Merged: TypeAlias = tuple[Part, Mapping[str, Column], pa.Schema]
"""A query that is nothing but a join: its inputs and conditions, and what its columns stand for."""


class View:
    """A query in FROM, bound when it is first needed."""

    def __init__(self, query: exp.Query, views: Views, uses: int = 1) -> None:
        self.query = query.unnest()
        self.uses = uses
        self._views = views
        self._node: Node | None = None
        self._block: Block | None = None

    def check(self) -> None:
        """Bind it if nobody did, so that a mistake in it is found."""
        if self._node is None and self._block is None:
            self.bound()

    def bound(self) -> Node:
        if self._node is None:
            self._node = self._block.relation() if self._block is not None else self._views.bound(self.query)
        return self._node

    def merged(self) -> Merged | None:
        """If it is nothing but a join, what it is made of."""
        if not isinstance(self.query, exp.Select):
            return None
        self._block = self._views.block(self.query, self._views.within(self.query), None)
        return self._block.merged()


class Views:
    """The named queries that are known at some place, and how a query is bound there."""

    def __init__(
        self, world: World, block: Callable[[exp.Select, Views, Scope | None], Block],
        combine: Callable[[exp.SetOperation, Views], Node], known: Mapping[str, View] | None = None,
    ) -> None:  # fmt: skip
        self.world = world
        self.block = block
        self.combine = combine
        self.known = dict(known or {})
        self.all: list[View] = []
        """Every view of the query."""

    def bound(self, query: exp.Expr) -> Node:
        """A query as a node whose columns have the names of SELECT."""
        query = query.unnest()
        views = self.within(query)
        if isinstance(query, exp.Select):
            return self.block(query, views, None).relation()
        if isinstance(query, exp.SetOperation):
            return self.combine(query, views)
        raise self.world.parsed.error(query, "a query is a SELECT, or several joined by UNION, EXCEPT or INTERSECT")

    def within(self, query: exp.Expr) -> Views:
        """With what a query's own WITH adds."""
        clause = query.args.get("with_")
        if clause is None:
            return self
        parsed = self.world.parsed
        if clause.args.get("recursive"):
            raise parsed.error(clause, "WITH RECURSIVE is not supported", "a stream has no fixed end to recurse to")
        views = self
        for cte in clause.expressions:
            alias = cte.args["alias"]
            if alias.args.get("columns"):
                raise parsed.error(alias, "new names for the columns of a view are not supported",
                                   "name them in its SELECT")  # fmt: skip
            if not isinstance(cte.this, exp.Query):
                raise parsed.error(cte, "a view is a query", "WITH v AS (SELECT ...)")
            uses = sum(t.name.lower() == alias.name.lower() for t in parsed.tree.find_all(exp.Table))
            view = View(cte.this, views, uses)
            self.all.append(view)
            views = Views(self.world, self.block, self.combine, {**views.known, alias.name: view})
            views.all = self.all
        return views

    def find(self, node: exp.Table) -> View | None:
        """The view that a name in FROM means."""
        found = matching(node.name, self.known) if len(node.parts) == 1 else []
        return self.known[found[0]] if found else None
