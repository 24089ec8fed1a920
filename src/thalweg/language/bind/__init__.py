"""A query's text bound to its sources: every name resolved, every predicate given to whoever evaluates it.

The conjuncts of WHERE and ON become filters (one input), key classes (columns of different inputs set equal) or
residuals (everything else between inputs). Thesis 2.1 and 5.1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import pyarrow as pa
from sqlglot import exp

from thalweg.errors import DefinitionError, QueryError
from thalweg.language.algebra import CHANGE_TIME, CHANGE_TYPE, RESULT_TIME, Bound, Emit, Leaf
from thalweg.language.bind.block import Answer, Block
from thalweg.language.bind.kinds import kept_nothing, kind_of
from thalweg.language.bind.order import limits, named, ordering
from thalweg.language.bind.plain import plain
from thalweg.language.bind.prune import pruned
from thalweg.language.bind.sets import combined
from thalweg.language.bind.ticks import every
from thalweg.language.bind.times import time_type
from thalweg.language.bind.views import Views
from thalweg.language.bind.world import World
from thalweg.language.query import Query, Source
from thalweg.language.text.parse import Parsed, parse


def bind(
    text: str, sources: Mapping[str, Source], functions: Mapping[str, Callable[..., Any]] | None = None, *,
    computed: bool = False,
) -> Bound:  # fmt: skip
    """Bind a continuous query to its streams and tables, and to the Python functions it calls.

    With `computed`, a plain query whose SELECT has expressions becomes a tree that computes them; without, and where
    only Spark can, they are left to whoever reads the results.

    >>> import pyarrow as pa
    >>> trips = Source(pa.schema({"ts": pa.int64(), "car": pa.int32()}), time="ts", unit="ms")
    >>> cars = Source(pa.schema({"car": pa.int64(), "colour": pa.string()}))
    >>> q = bind("SELECT t.ts FROM trips [RANGE 1 HOUR] t, cars c WHERE t.car = c.car AND c.colour = 'red'",
    ...          {"trips": trips, "cars": cars}).query
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
        bound = _bound(parse(text, functions), sources, functions)
        if computed and bound.plain is not None and any(o.column is None for o in bound.plain.output):
            with suppress(QueryError):
                tree = _bound(parse(text, functions), sources, functions, alone=False)
                if not any(i.computed for leaf in tree.leaves for i in leaf.query.inputs):  # those are Spark's again
                    return tree
        return bound
    except RecursionError:
        raise QueryError("the query is nested too deeply", hint="use fewer parentheses") from None


def _bound(
    parsed: Parsed, sources: Mapping[str, Source], functions: Mapping[str, Callable[..., Any]], *, alone: bool = True
) -> Bound:
    world = World(parsed, sources, functions)
    views = Views(world, lambda select, known, outer: Block(world, select, known, outer), combined)
    query = parsed.tree
    known = views.within(query)
    bound = _bound_query(world, query, known, alone)
    for view in views.all:
        view.check()
    written = {p: c.span for p, c in parsed.windows.items()} | {p: m.span for p, m in parsed.watermarks.items()}
    for position, span in written.items():
        if position not in world.places:
            raise parsed.error(span, "this belongs to no stream", "write it right after its stream in FROM")
    return bound


def _bound_query(world: World, query: exp.Query, known: Views, lone: bool) -> Bound:
    parsed, level = world.parsed, world.parsed.level(query)
    order, sorting = ordering(parsed, query)
    if isinstance(query, exp.Select):
        block = Block(world, query, known, None, outermost=True)
        cut = order or query.args.get("limit")
        alone = plain(block, level.stream, level.every) if lone and not cut else None
        if alone is not None:
            return _alone(block, alone)
        answer = block.answer(order)
    else:
        assert isinstance(query, exp.SetOperation)
        node = combined(query, known, outermost=True)
        answer = Answer(node, [(n, n) for n in node.schema.names], named(parsed, node.schema.names, order))
    return Bound(parsed.text, pruned(_root(parsed, query, answer, sorting)), world.used)


def _root(parsed: Parsed, query: exp.Query, answer: Answer, sorting: list[tuple[bool, bool]]) -> Emit:
    node, level = answer.node, parsed.level(query)
    ticks = every(parsed, query, node)
    kind = kind_of(node, level.stream[0] if level.stream else None, ticks)
    limit, offset = limits(parsed, query, node)
    if kind == "results":
        node = kept_nothing(node)
    time = time_type(node)
    fields = [(n, time if c == RESULT_TIME else node.schema.field(c).type) for n, c in answer.columns]
    if kind == "changes":
        fields += [(CHANGE_TYPE, pa.string()), (CHANGE_TIME, time)]
    by = tuple((c, *how) for c, how in zip(answer.sorted, sorting, strict=True))
    ticks = ticks if kind in ("istream", "dstream", "rstream") else None
    return Emit(pa.schema(fields), node, kind, tuple(answer.columns), ticks, by, limit, offset)


def _alone(block: Block, query: Query) -> Bound:
    """A query that is nothing but a block."""
    needs = dict.fromkeys(c for o in query.output for c in o.needs)
    leaf = Leaf(pa.schema([(str(c), block.scope.type(c)) for c in needs]), query)
    columns = tuple((o.name, str(o.column) if o.column is not None else o.text) for o in query.output)
    return Bound(query.text, Emit(leaf.schema, leaf, "results", columns), query.functions)
