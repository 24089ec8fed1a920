"""Values compiled from text, and asked from Spark, for comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import sqlglot
from sqlglot import exp

from thalweg.errors import PredicateError, QueryError
from thalweg.language import Column
from thalweg.language.scalar.compile import Names, Resolved, compiled_value
from thalweg.language.scalar.expression import Value

RAISED = "raised"


def valued(text: str, schema: pa.Schema, standing: Mapping[str, pa.DataType] | None = None) -> Value:
    """A compiled value; `standing`: aggregates that are computed elsewhere, with their types."""
    node = sqlglot.parse_one(f"SELECT {text}", read="spark").expressions[0]
    found = {id(c): Resolved(Column("t", c.name), schema.field(c.name).type) for c in node.find_all(exp.Column)}
    for n in node.walk():
        if n.sql("spark") in (standing or {}):
            found[id(n)] = Resolved(Column("t", n.sql("spark")), standing[n.sql("spark")])
    names = Names(found, {}, lambda node, message, hint: QueryError(message), lambda column: column.name)
    return Value(text, compiled_value(node, names))


def evaluated(value: Value, table: pa.Table) -> list[Any]:
    """The value on every row; RAISED where it raises."""
    arrays = {name: table.column(name).combine_chunks() for name in table.column_names}
    try:
        return value(arrays, table.num_rows).to_pylist()
    except PredicateError:
        return [RAISED] if table.num_rows == 1 else [
            evaluated(value, table.slice(row, 1))[0] for row in range(table.num_rows)
        ]  # fmt: skip


Answers = list[tuple[pa.DataType, list[Any]]]


def asked(spark: Any, table: pa.Table, texts: Sequence[str], part: int = 100) -> Answers:
    """Types and values that Spark gives for each text; [RAISED] for one that raises on some row."""
    frame = spark.createDataFrame(table).coalesce(1).cache()
    found = [a for start in range(0, len(texts), part) for a in _answers(frame, texts[start : start + part])]
    frame.unpersist()
    return found


def _answers(frame: Any, texts: Sequence[str]) -> Answers:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    asked = frame.selectExpr(*[f"{t} AS c{i}" for i, t in enumerate(texts)])
    try:
        return [(c.type, c.to_pylist()) for c in asked.toArrow().columns]
    except (PySparkException, Py4JJavaError):
        if len(texts) == 1:
            return [(asked.limit(0).toArrow().column(0).type, [RAISED])]
        half = len(texts) // 2
        return _answers(frame, texts[:half]) + _answers(frame, texts[half:])
