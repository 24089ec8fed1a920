"""`agg() OVER (PARTITION BY k ORDER BY ts RANGE | ROWS BETWEEN ... PRECEDING AND CURRENT ROW)`: aggregates of what came
before each row. The order is that of time, because a stream has no other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import pyarrow as pa
from sqlglot import exp

from thalweg.language.algebra import Aggregate, Node, Over
from thalweg.language.bind.aggregates import called, is_aggregate_call, result_type
from thalweg.language.bind.columns import keyed
from thalweg.language.bind.conditions import compiled_value_of, only_spark
from thalweg.language.bind.hops import is_result_time, refuse_relation
from thalweg.language.bind.scope import Scope, own
from thalweg.language.query import Column
from thalweg.language.scalar.compile import OnlySpark, Resolved
from thalweg.language.scalar.expression import Constant, Expression
from thalweg.language.scalar.types import MICROSECONDS

_FORM = (
    "sum(x) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL 1 HOUR PRECEDING AND CURRENT ROW), "
    "or ROWS BETWEEN 10 PRECEDING AND CURRENT ROW"
)


def over(scope: Scope, nodes: Iterable[exp.Expr], child: Node) -> Node:
    """The child with a column for each window function below the nodes."""
    for node in nodes:
        for part in list(own(node)):
            if isinstance(part, exp.Window):
                child = _over(scope, part, child)
    return child


def _over(scope: Scope, node: exp.Window, child: Node) -> Over:
    if not is_aggregate_call(scope.world, node.this):
        raise scope.parsed.error(node, f"{scope.parsed.written(node.this)} OVER (...) is not supported",
                                 f"aggregates are: {_FORM}")  # fmt: skip
    ordered = node.args["order"].expressions if node.args.get("order") else []
    if node.args.get("alias") or len(ordered) != 1 or ordered[0].args.get("desc"):
        raise scope.parsed.error(node, "OVER needs ORDER BY and the time of the rows, ascending", _FORM)
    if not is_result_time(scope, ordered[0].this, child):
        raise scope.parsed.error(
            ordered[0], "rows of a stream are ordered by the time of a result alone",
            "write ORDER BY result_time; a stream's own time column may stand there if it is the only stream",
        )  # fmt: skip
    refuse_relation(scope, node, child)
    frame, preceding = _frame(scope, node)
    call = called(scope.world, node.this)
    if call.distinct:
        raise scope.parsed.error(node, "DISTINCT with OVER is not supported", "count distinct values in a RANGE window")
    partition = [_value(scope, p) for p in node.args.get("partition_by") or []]
    values = [_value(scope, a) for a in call.arguments]
    child, names = keyed(scope.world, child, [*partition, *values])
    by, arguments = names[: len(partition)], names[len(partition) :]
    type = result_type(scope.world, node.this, call, [v.type for v in values])
    make = scope.world.functions[call.function] if call.own else None
    name = scope.world.name(scope.text(node))
    scope.stands(node, Resolved(Column("", name), type))
    schema = pa.schema([*child.schema, pa.field(name, type)])
    return Over(
        schema, child, tuple(by), frame, preceding, {name: Aggregate(call.function, tuple(arguments), make=make)}
    )


def _frame(scope: Scope, node: exp.Window) -> tuple[Literal["range", "rows"], int | None]:
    spec = node.args.get("spec")
    if spec is None:
        return "range", None  # SQL's default: everything up to the current time
    kind: Literal["range", "rows"] = "rows" if str(spec.args.get("kind") or "").lower() == "rows" else "range"
    start, end = spec.args.get("start"), spec.args.get("end")
    current = end in ("CURRENT ROW", None)
    if str(spec.args.get("start_side") or "").upper() != "PRECEDING" or not current:
        raise scope.parsed.error(node, "a frame reaches from PRECEDING to CURRENT ROW", _FORM)
    if start == "UNBOUNDED":
        return kind, None
    found = _constant(scope, start)
    if kind == "range" and found is not None and found.type == MICROSECONDS:
        return kind, int(found.value)
    if kind == "rows" and found is not None and isinstance(found.value, int) and found.type != MICROSECONDS:
        return kind, int(found.value)
    raise scope.parsed.error(node, f"{kind.upper()} takes {'an INTERVAL' if kind == 'range' else 'a number'}", _FORM)


def _constant(scope: Scope, node: exp.Expr | None) -> Constant | None:
    try:
        found = compiled_value_of(scope, node) if isinstance(node, exp.Expr) else None
    except OnlySpark:
        return None
    return found if isinstance(found, Constant) else None


def _value(scope: Scope, node: exp.Expr) -> Expression:
    scope.columns(node, scope.entries)
    try:
        return compiled_value_of(scope, node)
    except OnlySpark as only:
        raise only_spark(scope, only, "it is needed in OVER") from None
