"""Aggregate functions: what they are called, what they take, and the type that Spark gives their result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from thalweg.language.bind.scope import own
from thalweg.language.bind.world import World
from thalweg.language.scalar.types import DOUBLE, INT64, MAX_PRECISION, family, is_decimal, is_numeric, only_spark

_NAMES: dict[type[exp.Expr], str] = {
    exp.Count: "count", exp.Sum: "sum", exp.Avg: "avg", exp.Min: "min", exp.Max: "max", exp.Stddev: "stddev_samp",
    exp.StddevSamp: "stddev_samp", exp.StddevPop: "stddev_pop", exp.Variance: "var_samp", exp.VariancePop: "var_pop",
    exp.ArrayAgg: "collect_list", exp.ArrayUniqueAgg: "collect_list", exp.First: "first", exp.FirstValue: "first",
    exp.Last: "last", exp.LastValue: "last", exp.AnyValue: "first", exp.ApproxDistinct: "approx_count_distinct",
    exp.CountIf: "count", exp.LogicalAnd: "min", exp.LogicalOr: "max",
}  # fmt: skip
_CALLED = {"every": "min", "some": "max", "std": "stddev_samp"}
"""Aggregates of Spark that sqlglot takes for functions of somebody's own."""
KNOWN = (
    "count, sum, avg, min, max, stddev, variance, collect_list, collect_set, first, last, approx_count_distinct, "
    "count_if, bool_and, bool_or, or a class of yours with add, remove, value and merge"
)
_OTHERS = frozenset(
    ["max_by", "min_by", "mode", "listagg", "string_agg", "try_sum", "try_avg", "histogram_numeric",
     "count_min_sketch", "percentile_cont", "percentile_disc", "percentile", "median", "kurtosis", "skewness", "corr"]
)  # fmt: skip
"""Aggregates of Spark that are not known here and that sqlglot may take for plain functions."""


@dataclass(frozen=True)
class Called:
    """An aggregate as it is called."""

    function: str
    arguments: tuple[exp.Expr, ...]
    distinct: bool = False
    own: bool = False
    """Whether it is a user's."""


def aggregate_in(world: World, node: exp.Expr) -> exp.Expr | None:
    """The first aggregate below a node that belongs to GROUP BY: not one with OVER, nor one in a subquery."""
    return next(aggregates_in(world, node), None)


def aggregates_in(world: World, node: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(node, exp.Window):
        for part in (node.args.get("partition_by") or []) + [node.this.this]:
            if isinstance(part, exp.Expr):
                yield from aggregates_in(world, part)
        return
    if is_aggregate_call(world, node):
        yield node
        return
    for child in node.iter_expressions():
        if not isinstance(child, exp.Query):
            yield from aggregates_in(world, child)


def is_aggregate_call(world: World, node: exp.Expr) -> bool:
    if isinstance(node, exp.Anonymous):
        return node.name in world.aggregates or node.name.lower() in _OTHERS or node.name.lower() in _CALLED
    return isinstance(node, exp.AggFunc | exp.Filter | exp.WithinGroup | exp.IgnoreNulls | exp.RespectNulls)


def called(world: World, node: exp.Expr) -> Called:
    """Read a call of an aggregate; FILTER (WHERE c) becomes CASE WHEN c THEN ... END."""
    if isinstance(node, exp.Filter):
        found = called(world, node.this)
        if found.function in ("first", "last") or found.own:
            raise world.parsed.error(node, f"FILTER is not supported with {found.function}",
                                     "use a CASE in its argument")  # fmt: skip
        condition = node.expression.this
        given = found.arguments or (exp.Literal.number(1),)
        cases = tuple(exp.Case(ifs=[exp.If(this=condition, true=a)]) for a in given)
        return Called(found.function, cases, found.distinct)
    if isinstance(node, exp.Anonymous) and node.name in world.aggregates:
        return Called(world.aggregates[node.name][0], tuple(node.expressions), own=True)
    if isinstance(node, exp.IgnoreNulls | exp.RespectNulls):
        raise world.parsed.error(node, "IGNORE NULLS is not supported", "filter them out in WHERE")
    if isinstance(node, exp.Anonymous) and node.name.lower() in _CALLED:
        return Called(_CALLED[node.name.lower()], tuple(node.expressions))
    function = _NAMES.get(type(node))
    if function is None:
        shown = world.parsed.written(node).partition("(")[0].strip() or node.key
        raise world.parsed.error(node, f"the aggregate {shown} is not supported", f"there are {KNOWN}")
    of = node.this
    if not isinstance(of, exp.Expr):
        raise world.parsed.error(node, f"{function} needs an argument", "count(*) counts rows")
    if isinstance(of, exp.Order):
        raise world.parsed.error(node, "ORDER BY inside an aggregate is not supported", "its rows come in time order")
    if isinstance(node, exp.CountIf):
        return Called("count", (exp.Case(ifs=[exp.If(this=of, true=exp.Literal.number(1))]),))
    distinct = isinstance(of, exp.Distinct) or isinstance(node, exp.ArrayUniqueAgg)
    arguments = list(of.expressions) if isinstance(of, exp.Distinct) else [of, *(node.expressions or [])]
    if len(arguments) == 1 and isinstance(arguments[0], exp.Star):
        arguments = []
        if distinct:
            raise world.parsed.error(node, "count(DISTINCT *) is not supported", "name the columns")
    return Called(function, tuple(arguments), distinct)


def result_type(world: World, node: exp.Expr, call: Called, arguments: Sequence[pa.DataType]) -> pa.DataType:
    """The type of an aggregate's value, as Spark has it."""
    if call.own:
        return next(t for n, t in world.aggregates.values() if n == call.function)
    if call.function in ("count", "approx_count_distinct"):
        return INT64
    if len(arguments) != 1:
        raise world.parsed.error(node, f"{call.function} takes one argument, found {len(arguments)}")
    of = arguments[0]
    if call.function == "collect_list":
        return pa.list_(of)
    if call.function in ("first", "last"):
        return of
    if call.function in ("min", "max"):
        if only_spark(of):
            raise world.parsed.error(node, f"{call.function} of a {family(of)} is not supported")
        return of
    if not is_numeric(of) and not pt.is_null(of):
        raise world.parsed.error(node, f"{call.function} takes numbers, found a {family(of)}", "CAST it first")
    if call.function == "sum":
        if is_decimal(of):
            return pa.decimal128(min(MAX_PRECISION, of.precision + 10), of.scale)
        return DOUBLE if pt.is_floating(of) else INT64
    if call.function == "avg" and is_decimal(of):
        return pa.decimal128(min(MAX_PRECISION, of.precision + 4), min(MAX_PRECISION, of.scale + 4))
    return DOUBLE


def calls(world: World, node: exp.Expr) -> bool:
    """Whether a node calls an aggregate anywhere outside subqueries."""
    return any(is_aggregate_call(world, part) for part in own(node))
