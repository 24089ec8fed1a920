"""The conjuncts of WHERE, ON and HAVING; as filters (over one input) and residuals (over several) of a join block."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from sqlglot import exp

from thalweg.errors import QueryError, ThalwegError
from thalweg.language.bind.computed import computing
from thalweg.language.bind.entry import Entry
from thalweg.language.bind.scope import Scope, own
from thalweg.language.bind.unsupported import refuse_in
from thalweg.language.bind.world import label
from thalweg.language.query import Column, Filter, Residual
from thalweg.language.scalar.compile import Names, OnlySpark, Resolved, compiled, compiled_value, runs
from thalweg.language.scalar.expression import Condition, Expression

_MOVE = "make it a column of the input first (withColumn), or split the condition with AND"


@dataclass
class Conjunct:
    """One conjunct, with its columns resolved."""

    scope: Scope
    node: exp.Expr
    text: str
    columns: list[Resolved]
    functions: tuple[str, ...]

    @property
    def inputs(self) -> list[str]:
        return list(dict.fromkeys(r.column.input for r in self.columns))


def split(node: exp.Expr) -> Iterator[exp.Expr]:
    """What AND joins, and what every alternative of an OR demands besides the OR itself."""
    waiting = [node]
    while waiting:
        part = waiting.pop().unnest()
        if isinstance(part, exp.And):
            waiting += [part.expression, part.this]
            continue
        if isinstance(part, exp.Or):
            yield from _demanded(part)
        yield part


def _demanded(node: exp.Or) -> Iterator[exp.Expr]:
    """Conjuncts of every alternative: (a AND b) OR (a AND c) demands a."""
    alternatives: list[dict[exp.Expr, exp.Expr]] = []
    waiting: list[exp.Expr] = [node]
    while waiting:
        part = waiting.pop().unnest()
        if isinstance(part, exp.Or):
            waiting += [part.expression, part.this]
        elif isinstance(part, exp.And):
            alternatives.append({c: c for c in split(part) if not isinstance(c, exp.Or)})
        else:
            return
    for conjunct in alternatives[0]:
        simple = not any(isinstance(n, exp.Anonymous) or n.args.get("query") for n in own(conjunct))
        if simple and all(conjunct in other for other in alternatives[1:]):
            yield conjunct


def conjunct(scope: Scope, node: exp.Expr, entries: Sequence[Entry], inner: Sequence[Resolved] = ()) -> Conjunct:
    """A conjunct that can see these entries; `inner` are columns that stand for its subqueries."""
    refuse_in(scope, node, selected=False)
    columns = [*scope.columns(node, entries), *inner]
    names = [
        scope.functions[f.name][0] for f in own(node) if isinstance(f, exp.Anonymous) and f.name in scope.functions
    ]
    return Conjunct(scope, node, scope.text(node), columns, tuple(dict.fromkeys(reversed(names))))


def filters(scope: Scope, c: Conjunct, first: Entry) -> list[Filter]:
    """The filter of a conjunct over one input, or over none; nothing if it is always true."""
    condition = _compiled(scope, c, lambda column: column.name)
    columns = tuple(dict.fromkeys(r.column.name for r in c.columns))
    if c.inputs:
        owner = c.inputs[0]
    else:
        if condition is not None and not c.functions and holds(condition):
            return []
        owner, columns = first.alias, (first.names[0],)  # some input must hold it; any column of it counts the rows
    return [Filter(owner, c.text, columns, Condition(c.text, condition) if condition else None, c.functions)]


def residual(scope: Scope, c: Conjunct) -> Residual:
    return residual_of(scope, c.text, [r.column for r in c.columns], _compiled(scope, c, lambda column: column))


def engine_residual(scope: Scope, c: Conjunct) -> Residual:
    """A residual that the engine evaluates, because something stands above the block."""
    names = Names(scope.resolved, scope.functions, scope.parsed.error, lambda column: column)
    try:
        condition = computing(scope, c.node, lambda: compiled(c.node, names))
    except OnlySpark as only:
        raise only_spark(scope, only, "it is needed before the rest of the query") from None
    read = [scope.resolved[id(n)].column for n in own(c.node, scope.resolved) if id(n) in scope.resolved]
    return residual_of(scope, c.text, read, condition)


def residual_of(scope: Scope, text: str, columns: Sequence[Column], condition: Expression | None) -> Residual:
    inputs = tuple(sorted({c.input for c in columns}, key=scope.order))
    called = Condition(text, condition) if condition else None
    return Residual(inputs, text, tuple(dict.fromkeys(columns)), called)


def above(c: Conjunct) -> Expression:
    """A conjunct over the columns of nodes, which nobody but the engine can evaluate."""
    try:
        return compiled_value_of(c.scope, c.node, condition=True)
    except OnlySpark as only:
        raise only_spark(c.scope, only, "it stands above an outer join, a subquery or an aggregate") from None


def compiled_value_of(scope: Scope, node: exp.Expr, condition: bool = False) -> Expression:
    """An expression over the columns of nodes; raises OnlySpark if that can't be exact."""
    names = Names(scope.resolved, scope.functions, scope.parsed.error, label)

    def compile() -> Expression:
        if not condition:
            return compiled_value(node, names)
        found = compiled(node, names)
        if not runs(found, node, names):
            raise OnlySpark(node)
        return found

    return computing(scope, node, compile)


def foresee(scope: Scope, node: exp.Expr, condition: bool = False) -> None:
    """Find out what only Spark can compute in an expression that is compiled later, while inputs can still get columns."""
    try:
        compiled_value_of(scope, node, condition)
    except (OnlySpark, QueryError):
        return  # the error comes when it is compiled


def only_spark(scope: Scope, only: OnlySpark, why: str) -> Exception:
    hint = only.hint("make it a column of an input first: pass df.withColumn('name', ...) instead of df")
    return scope.parsed.error(only.node, f"only Spark can compute this exactly, but {why}", hint)


def _compiled(scope: Scope, c: Conjunct, key: Callable[[Column], Any]) -> Expression | None:
    """The vectorised condition, or None if it is left to Spark."""
    names = Names(scope.resolved, scope.functions, scope.parsed.error, key)
    try:
        condition = compiled(c.node, names)
    except OnlySpark as only:
        if not c.functions:
            return None
        message = f"only Spark can compute this, but {c.functions[0]} in the same condition is Python"
        raise scope.parsed.error(only.node, message, only.hint(_MOVE)) from None
    return condition if runs(condition, c.node, names) else None


def holds(condition: Expression) -> bool:
    """Whether a condition over no columns is true."""
    try:
        return bool(Condition("", condition)({"": pa.nulls(1)})[0].as_py() is True)
    except ThalwegError:
        return False
