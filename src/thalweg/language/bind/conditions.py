"""The conjuncts of WHERE and ON as filters (over one input) and residuals (over several)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from sqlglot import exp

from thalweg.errors import ThalwegError
from thalweg.language.bind.scope import Entry, Scope
from thalweg.language.bind.unsupported import refuse_in
from thalweg.language.query import Column, Filter, Residual
from thalweg.language.scalar.compile import Names, OnlySpark, Resolved, compiled
from thalweg.language.scalar.expression import Condition, Expression


@dataclass
class Conjunct:
    """One conjunct, with its columns resolved."""

    node: exp.Expr
    text: str
    columns: list[Resolved]
    functions: tuple[str, ...]

    @property
    def inputs(self) -> list[str]:
        return list(dict.fromkeys(r.column.input for r in self.columns))


def conjuncts(scope: Scope, node: exp.Expr, entries: Sequence[Entry]) -> Iterator[Conjunct]:
    """The conjuncts of a condition that can see these entries."""
    refuse_in(scope.parsed, node, selected=False)
    waiting = [node]
    while waiting:
        part = waiting.pop().unnest()
        if isinstance(part, exp.And):
            waiting += [part.expression, part.this]
            continue
        columns = scope.columns(part, entries)
        names = [scope.functions[f.name][0] for f in part.find_all(exp.Anonymous) if f.name in scope.functions]
        yield Conjunct(part, scope.text(part), columns, tuple(dict.fromkeys(reversed(names))))


def filters(scope: Scope, c: Conjunct) -> list[Filter]:
    """The filter of a conjunct over one input, or over none; nothing if it is always true."""
    condition = _compiled(scope, c, lambda column: column.name)
    columns = tuple(dict.fromkeys(r.column.name for r in c.columns))
    if c.inputs:
        owner = c.inputs[0]
    else:
        if condition is not None and not c.functions and _holds(condition):
            return []
        first = scope.entries[0]  # some input must hold it; any column of it counts the rows
        owner, columns = first.alias, (first.names[0],)
    return [Filter(owner, c.text, columns, Condition(c.text, condition) if condition else None, c.functions)]


def residual(scope: Scope, c: Conjunct) -> Residual:
    return residual_of(scope, c.text, [r.column for r in c.columns], _compiled(scope, c, lambda column: column))


def residual_of(scope: Scope, text: str, columns: Sequence[Column], condition: Expression | None) -> Residual:
    inputs = tuple(sorted({c.input for c in columns}, key=scope.order))
    called = Condition(text, condition) if condition else None
    return Residual(inputs, text, tuple(dict.fromkeys(columns)), called)


def _compiled(scope: Scope, c: Conjunct, key: Callable[[Column], Any]) -> Expression | None:
    """The vectorised condition, or None if it is left to Spark."""
    names = Names(scope.resolved, scope.functions, scope.parsed.error, key)
    try:
        condition = compiled(c.node, names)
    except OnlySpark as only:
        if not c.functions:
            return None
        hint = only.hint("make it a column of the input first (withColumn), or split the condition with AND")
        message = f"only Spark can compute this, but {c.functions[0]} in the same condition is Python"
        raise scope.parsed.error(only.node, message, hint) from None
    return condition if c.functions or _runs(condition, c.columns, key) else None


def _runs(condition: Expression, columns: Iterable[Resolved], key: Callable[[Column], Any]) -> bool:
    """Whether Arrow has kernels for these types. Only trying tells, so it is tried without rows."""
    try:
        Condition("", condition)({key(r.column): pa.nulls(0, r.type) for r in columns} or {"": pa.nulls(0)})
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError):
        return False
    return True


def _holds(condition: Expression) -> bool:
    """Whether a condition over no columns is true."""
    try:
        return bool(Condition("", condition)({"": pa.nulls(1)})[0].as_py() is True)
    except ThalwegError:
        return False
