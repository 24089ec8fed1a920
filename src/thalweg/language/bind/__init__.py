"""A query's text bound to its sources: every name resolved, every predicate given to whoever evaluates it.

The conjuncts of WHERE and ON become filters (one input), key classes (columns of different inputs set equal) or
residuals (everything else between inputs). Thesis 2.1 and 5.1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from thalweg.errors import DefinitionError, QueryError
from thalweg.language.bind.conditions import Conjunct, conjuncts, filters, residual
from thalweg.language.bind.from_clause import entries
from thalweg.language.bind.keys import Keys, Pair, crosses, key_pair
from thalweg.language.bind.output import output
from thalweg.language.bind.scope import Scope
from thalweg.language.bind.unsupported import refuse_clauses, refuse_in
from thalweg.language.functions import signature
from thalweg.language.query import Block, Filter, Query, Residual, Source
from thalweg.language.text.parse import Parsed, parse
from thalweg.language.text.quoting import quoted_column


def bind(text: str, sources: Mapping[str, Source], functions: Mapping[str, Callable[..., Any]] | None = None) -> Query:
    """Bind a continuous query to its streams and tables, and to the Python functions it calls.

    >>> import pyarrow as pa
    >>> trips = Source(pa.schema({"ts": pa.int64(), "car": pa.int32()}), time="ts")
    >>> cars = Source(pa.schema({"car": pa.int64(), "colour": pa.string()}))
    >>> q = bind("SELECT t.ts FROM trips [RANGE 1 HOUR] t, cars c WHERE t.car = c.car AND c.colour = 'red'",
    ...          {"trips": trips, "cars": cars})
    >>> [str(c) for c in q.block.keys[0].columns], q.block.keys[0].type, q.block.filters[0].text
    (['t.car', 'c.car'], DataType(int64), "c.colour = 'red'")
    """
    if not isinstance(text, str):
        raise QueryError(f"a query is text, not a {type(text).__name__}")
    functions = dict(functions or {})
    for name, function in functions.items():
        if not callable(function):
            raise DefinitionError(f"'{name}' is of type {type(function).__name__}, not a function")
    try:
        return _bound(parse(text, functions), sources, functions)
    except RecursionError:
        raise QueryError("the query is nested too deeply", hint="use fewer parentheses") from None


def _bound(parsed: Parsed, sources: Mapping[str, Source], functions: Mapping[str, Callable[..., Any]]) -> Query:
    called = {stand_in: (name, signature(functions[name])) for stand_in, name in parsed.functions.items()}
    refuse_clauses(parsed)
    scope = Scope(parsed, entries(parsed, sources), called)
    conditions: list[Conjunct] = []
    pairs: list[Pair] = []
    for i, entry in enumerate(scope.entries):
        pairs += [(a, b, node, f"{quoted_column(a)} = {quoted_column(b)}") for a, b, node in scope.using(entry)]
        if entry.join is not None and entry.join.args.get("on") is not None:
            conditions += conjuncts(scope, entry.join.args["on"], scope.entries[: i + 1])
    for item in parsed.select.expressions:
        refuse_in(parsed, item, selected=True)
    where = parsed.select.args.get("where")
    if where is not None:
        conditions += conjuncts(scope, where.this, scope.entries)
    columns = tuple(column for item in parsed.select.expressions for column in output(scope, item))
    over_one: list[Filter] = []
    residuals: list[Residual] = []
    for c in conditions:
        if len(c.inputs) < 2:
            over_one += filters(scope, c)
        elif (pair := key_pair(scope, c)) is not None:
            pairs.append(pair)
        else:
            residuals.append(residual(scope, c))
    keys = Keys(scope)
    keys.add(pairs)
    classes, residuals = keys.classes(), residuals + keys.residuals
    inputs = tuple(e.input for e in scope.entries)
    block = Block(
        inputs, classes, (*over_one, *keys.implied()), tuple(residuals), columns, crosses(scope, classes, residuals)
    )
    return Query(parsed.text, block, {name: functions[name] for name in parsed.functions.values()})
