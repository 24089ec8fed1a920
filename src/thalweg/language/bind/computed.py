"""Expressions that only Spark can compute, as columns of an input, which Spark adds before the query begins.

An expression over the columns of one source, and over nothing else, may be computed before the join. Its type must be
known without asking Spark: a CAST says it, a condition is a boolean, and some functions always give the same type.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from thalweg.language.bind.scope import Scope, own
from thalweg.language.query import Column
from thalweg.language.scalar.compile import OnlySpark, Resolved
from thalweg.language.scalar.compile.casts import named_type
from thalweg.language.scalar.expression import Expression
from thalweg.language.scalar.types import BOOL, DOUBLE, INT32, INT64, TEXT

_CONDITIONS = (
    exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.Like, exp.ILike, exp.RegexpLike, exp.Between,
    exp.In, exp.Is, exp.Not, exp.And, exp.Or,
)  # fmt: skip
_RESULTS: dict[str, pa.DataType] = {
    **dict.fromkeys(["date_format", "regexp_extract", "regexp_replace", "replace", "get_json_object", "md5", "sha1", "sha2",
                     "hex", "base64", "split_part", "substring_index", "lpad", "rpad", "initcap", "reverse", "translate",
                     "format_string", "from_unixtime", "to_json", "concat_ws", "repeat", "soundex"], TEXT),
    **dict.fromkeys(["to_date", "trunc", "last_day", "add_months", "next_day", "date_add", "date_sub"], pa.date32()),
    **dict.fromkeys(["year", "quarter", "month", "day", "dayofmonth", "dayofweek", "dayofyear", "weekday", "weekofyear",
                     "hour", "minute", "second", "datediff", "date_diff", "ascii", "instr", "locate", "levenshtein", "size",
                     "hash", "crc32", "bit_count"], INT32),
    **dict.fromkeys(["xxhash64", "unix_seconds", "unix_millis", "unix_micros", "unix_timestamp"], INT64),
    **dict.fromkeys(["sqrt", "exp", "ln", "log", "log10", "log2", "pow", "power", "sin", "cos", "tan", "atan2", "asin", "acos",
                     "atan", "radians", "degrees", "cbrt", "months_between"], DOUBLE),
    **dict.fromkeys(["rlike", "regexp_like", "array_contains", "exists", "startswith", "endswith", "contains"], BOOL),
}  # fmt: skip
"""Functions of Spark whose result has one type, whatever their arguments."""


def computing(scope: Scope, node: exp.Expr, compile: Callable[[], Expression]) -> Expression:
    """What compiles, once the parts that only Spark can compute are columns; else OnlySpark, as before."""
    while True:
        try:
            return compile()
        except OnlySpark as only:
            if not _computed(scope, node, only.node):
                raise


def _computed(scope: Scope, root: exp.Expr, node: exp.Expr) -> bool:
    """Make the smallest expression around a node a column of its input, if there is one that can be."""
    part: exp.Expr | None = node
    while part is not None:
        type = spark_type(scope, part)
        if type is not None and id(part) not in scope.resolved and _add(scope, part, type):
            return True
        if part is root:
            return False
        part = part.parent
    return False


def _add(scope: Scope, node: exp.Expr, type: pa.DataType) -> bool:
    read = [scope.resolved[id(n)].column for n in own(node, scope.resolved) if id(n) in scope.resolved]
    owners = {c.input for c in read}
    entry = next((e for e in scope.sources() if owners == {e.alias}), None)
    calls = any(isinstance(n, exp.Anonymous) and n.name in scope.world.parsed.functions for n in own(node))
    if entry is None or entry.input is None or calls:
        return False
    text = scope.text(node)
    name = next((n for n, t in entry.input.computed if t == text), None)
    if name is None:
        name = scope.world.name(text)
        spec = replace(entry.input.spec, schema=entry.schema.append(pa.field(name, type)))
        entry.input = replace(entry.input, spec=spec, computed=(*entry.input.computed, (name, text)))
        entry.schema = spec.schema
        scope.know([entry])
    scope.stands(node, Resolved(Column(entry.alias, name), type))
    return True


def spark_type(scope: Scope, node: exp.Expr) -> pa.DataType | None:
    """The type of what Spark computes, if it is known without asking."""
    node = node.unnest()
    if isinstance(node, exp.Cast):
        return named_type(node.args["to"])
    if isinstance(node, _CONDITIONS):
        return BOOL
    if isinstance(node, exp.Func):
        called = scope.parsed.written(node).partition("(")[0].strip().lower()
        return _RESULTS.get(called)
    return None
