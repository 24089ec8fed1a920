"""Equalities between columns of different inputs, closed under transitivity where the types allow it.

A pair whose types would make equality intransitive (an integer beside a float that rounds it) forms a class of its own
or stays a residual. Thesis 5.1.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from thalweg.language.bind.conditions import Conjunct, residual_of
from thalweg.language.bind.scope import Scope
from thalweg.language.query import Column, Filter, KeyClass, Residual
from thalweg.language.scalar.checked import As
from thalweg.language.scalar.expression import Apply, Condition, Expression, Field
from thalweg.language.scalar.types import BOOL, common, comparable, family, is_decimal, lossless
from thalweg.language.text.quoting import quoted_column

Pair = tuple[Column, Column, exp.Expr, str]
"""Two equal columns, where that is written, and its text."""


def key_pair(c: Conjunct) -> Pair | None:
    """The pair of a conjunct that sets two plain columns equal."""
    if not isinstance(c.node, exp.EQ):
        return None
    sides = [c.scope.resolved.get(id(s.unnest())) for s in (c.node.this, c.node.expression)]
    columns = [s.column for s in sides if s is not None and not s.fields]
    return (columns[0], columns[1], c.node, c.text) if len(columns) == 2 else None


class Keys:
    """Classes of equal columns, each with the type in which it compares."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self.groups: list[tuple[list[Column], pa.DataType]] = []
        self.rest: list[Pair] = []
        """Pairs that can't be in a class."""

    def add(self, pairs: Iterable[Pair]) -> None:
        """Pairs that lose no digits come first: they may form large classes, the others stay on their own."""
        for pair in sorted(pairs, key=lambda p: not self._exact(p[0], p[1])):
            self._equal(pair)

    def classes(self, aliases: Collection[str]) -> tuple[KeyClass, ...]:
        """The classes of the columns of these inputs."""
        found = []
        for columns, type in self.groups:
            members = sorted((c for c in columns if c.input in aliases), key=lambda c: self._scope.order(c.input))
            if len({c.input for c in members}) > 1:
                found.append(KeyClass(tuple(members), type))
        return tuple(found)

    def implied(self, aliases: Collection[str]) -> Iterator[Filter]:
        """Two columns of one input in one class are equal to each other."""
        for columns, type in self.groups:
            for alias in dict.fromkeys(c.input for c in columns if c.input in aliases):
                first, *others = (c for c in columns if c.input == alias)
                for other in others:
                    text = f"{quoted_column(first)} = {quoted_column(other)}"
                    same = Apply(BOOL, "=", (Field(type, first.name), Field(type, other.name)))
                    yield Filter(alias, text, (first.name, other.name), Condition(text, same))

    def same(self, pair: Pair, key: Callable[[Column], Any]) -> Expression | None:
        """The equality of a pair of `rest`; None if only Spark can tell."""
        types = [self._scope.type(c) for c in pair[:2]]
        shared = common(*types)
        if shared is None or pt.is_nested(shared) or pt.is_null(shared) or _rounded(types, shared):
            return None
        return Apply(BOOL, "=", tuple(As(shared, Field(t, key(c))) for t, c in zip(types, pair[:2], strict=True)))

    def residual(self, pair: Pair) -> Residual:
        return residual_of(self._scope, pair[3], pair[:2], self.same(pair, lambda column: column))

    def _find(self, column: Column) -> int | None:
        return next((i for i, (columns, _) in enumerate(self.groups) if column in columns), None)

    def _exact(self, a: Column, b: Column) -> bool:
        types = self._scope.type(a), self._scope.type(b)
        shared = common(*types)
        return shared is not None and all(lossless(t, shared) for t in types)

    def _equal(self, pair: Pair) -> None:
        """Merge the classes of two columns; if that would not be exact, the pair is left over."""
        a, b, node, _ = pair
        types = [self._scope.type(c) for c in (a, b)]
        if not comparable(*types):
            raise self._scope.parsed.error(
                node, f"a {family(types[0])} can't be compared with a {family(types[1])}",
                f"{a} is {types[0]}, {b} is {types[1]}: CAST one of them",
            )  # fmt: skip
        shared = common(*types)
        if shared is None or pt.is_nested(shared) or pt.is_null(shared):
            self.rest.append(pair)
            return
        i, j = self._find(a), self._find(b)
        if i is not None and i == j:
            return
        left = self.groups[i] if i is not None else ([a], types[0])
        right = self.groups[j] if j is not None else ([b], types[1])
        merged = common(left[1], right[1])
        members = [*left[0], *right[0]]
        exact = merged is not None and all(lossless(self._scope.type(c), merged) for c in members)
        if _rounded(types, shared) or not (exact or (i is None and j is None)):
            self.rest.append(pair)
            return
        self.groups = [c for k, c in enumerate(self.groups) if k not in (i, j)]
        self.groups.append((members, merged if merged is not None else shared))


def _rounded(types: Sequence[pa.DataType], shared: pa.DataType) -> bool:
    """A decimal beside a float: Spark rounds the decimal."""
    return any(is_decimal(t) for t in types) and bool(pt.is_floating(shared))
