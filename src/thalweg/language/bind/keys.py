"""Equalities between columns of different inputs, closed under transitivity where the types allow it.

A pair whose types would make equality intransitive (an integer beside a float that rounds it) forms a class of its own
or stays a residual. Thesis 5.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from thalweg.language.bind.conditions import Conjunct, residual_of
from thalweg.language.bind.scope import Scope, listed
from thalweg.language.query import Column, Filter, KeyClass, Residual
from thalweg.language.scalar.checked import As
from thalweg.language.scalar.expression import Apply, Condition, Field
from thalweg.language.scalar.types import BOOL, common, comparable, family, is_decimal, lossless
from thalweg.language.text.quoting import quoted_column

Pair = tuple[Column, Column, exp.Expr, str]
"""Two equal columns, where that is written, and its text."""


def key_pair(scope: Scope, c: Conjunct) -> Pair | None:
    """The pair of a conjunct that sets two plain columns equal."""
    if not isinstance(c.node, exp.EQ):
        return None
    sides = [scope.resolved.get(id(s.unnest())) for s in (c.node.this, c.node.expression)]
    columns = [s.column for s in sides if s is not None and not s.fields]
    return (columns[0], columns[1], c.node, c.text) if len(columns) == 2 else None


class Keys:
    """Classes of equal columns, each with the type in which it compares."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._classes: list[tuple[list[Column], pa.DataType]] = []
        self.residuals: list[Residual] = []
        """Pairs that can't be in a class."""

    def add(self, pairs: Iterable[Pair]) -> None:
        """Pairs that lose no digits come first: they may form large classes, the others stay on their own."""
        for pair in sorted(pairs, key=lambda p: not self._exact(p[0], p[1])):
            self._equal(*pair)

    def classes(self) -> tuple[KeyClass, ...]:
        order = self._scope.order
        return tuple(KeyClass(tuple(sorted(cs, key=lambda c: order(c.input))), type) for cs, type in self._classes)

    def implied(self) -> Iterator[Filter]:
        """Two columns of one input in one class are equal to each other."""
        for columns, type in self._classes:
            for alias in dict.fromkeys(c.input for c in columns):
                first, *others = (c for c in columns if c.input == alias)
                for other in others:
                    text = f"{quoted_column(first)} = {quoted_column(other)}"
                    same = Apply(BOOL, "=", (Field(type, first.name), Field(type, other.name)))
                    yield Filter(alias, text, (first.name, other.name), Condition(text, same))

    def _find(self, column: Column) -> int | None:
        return next((i for i, (columns, _) in enumerate(self._classes) if column in columns), None)

    def _exact(self, a: Column, b: Column) -> bool:
        types = self._scope.type(a), self._scope.type(b)
        shared = common(*types)
        return shared is not None and all(lossless(t, shared) for t in types)

    def _equal(self, a: Column, b: Column, node: exp.Expr, text: str) -> None:
        """Merge the classes of two columns; if that would not be exact, keep the pair as a residual."""
        types = [self._scope.type(c) for c in (a, b)]
        if not comparable(*types):
            raise self._scope.parsed.error(
                node, f"a {family(types[0])} can't be compared with a {family(types[1])}",
                f"{a} is {types[0]}, {b} is {types[1]}: CAST one of them",
            )  # fmt: skip
        shared = common(*types)
        if shared is None or pt.is_nested(shared) or pt.is_null(shared):
            self.residuals.append(residual_of(self._scope, text, (a, b), None))
            return
        i, j = self._find(a), self._find(b)
        if i is not None and i == j:
            return
        left = self._classes[i] if i is not None else ([a], types[0])
        right = self._classes[j] if j is not None else ([b], types[1])
        merged = common(left[1], right[1])
        members = [*left[0], *right[0]]
        exact = merged is not None and all(lossless(self._scope.type(c), merged) for c in members)
        rounded = any(is_decimal(t) for t in types) and pt.is_floating(shared)
        if rounded or not (exact or (i is None and j is None)):
            sides = tuple(As(shared, Field(t, c)) for t, c in zip(types, (a, b), strict=True))
            condition = None if rounded else Apply(BOOL, "=", sides)
            self.residuals.append(residual_of(self._scope, text, (a, b), condition))
            return
        self._classes = [c for k, c in enumerate(self._classes) if k not in (i, j)]
        self._classes.append((members, merged if merged is not None else shared))


def crosses(scope: Scope, keys: Iterable[KeyClass], residuals: Iterable[Residual]) -> bool:
    """Whether CROSS JOIN asks for a product; an error if there is a product that was not asked for."""
    links = [{c.input for c in k.columns} for k in keys] + [set(r.inputs) for r in residuals]
    written = [{left.alias, right.alias} for left, right in pairwise(scope.entries) if right.crossed]
    reached = _reached(scope.entries[0].alias, links + written)
    lost = next((e for e in scope.entries if e.alias not in reached), None)
    if lost is not None:
        raise scope.parsed.error(
            lost.node, f"no predicate connects '{lost.alias}' with {listed(sorted(reached, key=scope.order))}",
            "set one of its columns equal to one of another input, or write CROSS JOIN if every pair is meant",
        )  # fmt: skip
    return _reached(scope.entries[0].alias, links) != reached


def _reached(first: str, links: Sequence[set[str]]) -> set[str]:
    """The inputs that links connect with the first one."""
    seen = {first}
    while grown := [link for link in links if link & seen and not link <= seen]:
        seen = seen.union(*grown)
    return seen
