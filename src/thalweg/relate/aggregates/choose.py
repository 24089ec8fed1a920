"""Which accumulator computes an aggregate, by its function and the types of its arguments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from thalweg.errors import DefinitionError
from thalweg.language.algebra import Aggregate
from thalweg.relate.aggregates.contract import Accumulator
from thalweg.relate.aggregates.counts import Count
from thalweg.relate.aggregates.distinct import Once
from thalweg.relate.aggregates.extremes import Extreme, Peak
from thalweg.relate.aggregates.floats import FloatSum
from thalweg.relate.aggregates.moments import Moment
from thalweg.relate.aggregates.ordered import Ordered
from thalweg.relate.aggregates.sums import ExactSum
from thalweg.relate.aggregates.user import UserAggregate
from thalweg.relate.rows.dictionary import Dictionary

OTHER_NAMES = {"stddev": "stddev_samp", "variance": "var_samp", "array_agg": "collect_list", "mean": "avg"}
ORDERED = ("first", "last", "collect_list")


def named(aggregate: Aggregate) -> str:
    return OTHER_NAMES.get(aggregate.function, aggregate.function)


def needed(aggregate: Aggregate, child: pa.Schema) -> tuple[str, ...]:
    """The columns of the child that an accumulator is given: its arguments, and whole rows where their order counts."""
    if aggregate.make is None and named(aggregate) in ORDERED and not aggregate.distinct:
        return (*aggregate.arguments, *(name for name in child.names if name not in aggregate.arguments))
    return aggregate.arguments


def accumulator(
    aggregate: Aggregate, child: pa.Schema, result: pa.DataType, groups: Dictionary, field: str, *, grow: bool = False
) -> Accumulator:
    """One for all groups, over rows of the child; its fields in the groups' dictionary begin with `field`. `grow`: no
    row ever leaves a group."""
    arguments = [child.field(name).type for name in needed(aggregate, child)]
    if aggregate.make is not None:
        return UserAggregate(aggregate.function, aggregate.make, result)
    function = named(aggregate)
    if function == "approx_count_distinct":
        return Once(arguments, Count(groups, field))
    if aggregate.distinct and function not in ("min", "max"):
        return Once(
            arguments, accumulator(replace(aggregate, distinct=False), _only(child, aggregate), result, groups, field)
        )
    return _plain(function, arguments, result, groups, field, grow)


def _only(child: pa.Schema, aggregate: Aggregate) -> pa.Schema:
    return pa.schema([child.field(name) for name in aggregate.arguments])


def _plain(
    function: str, arguments: Sequence[pa.DataType], result: pa.DataType, groups: Dictionary, field: str, grow: bool
) -> Accumulator:
    numeric = bool(arguments) and _numeric(arguments[0])
    match function:
        case "count":
            return Count(groups, field)
        case "sum" | "avg" if numeric and pa.types.is_floating(arguments[0]):
            return FloatSum(groups, field, result, function == "avg")
        case "sum" | "avg" if numeric:
            return ExactSum(groups, field, arguments[0], result, function == "avg")
        case "min" | "max" if arguments:
            return (Peak if grow else Extreme)(arguments[0], result, function == "min")
        case "stddev_samp" | "stddev_pop" | "var_samp" | "var_pop" if numeric:
            return Moment(groups, field, result, sample=function.endswith("samp"), root=function.startswith("stddev"))
        case "first" | "last" | "collect_list" if arguments:
            return Ordered(arguments, result, function)
    types = ", ".join(map(str, arguments))
    raise DefinitionError(
        f"there is no aggregate {function}({types})", hint="cast its arguments to a type that it takes"
    )


def _numeric(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_integer(dtype) or pa.types.is_floating(dtype) or pa.types.is_decimal(dtype))
