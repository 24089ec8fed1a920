"""The Arrow schema of an input. A column that can't travel to Python may be there, as long as Python never reads it."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.types import DataType, StructField, StructType

from thalweg.errors import DefinitionError
from thalweg.execute.shape import Shape
from thalweg.spark.compat import arrow_schema

OPAQUE = pa.month_day_nano_interval()
"""Stands for types that Arrow does not carry here: no kernel takes it, so conditions over it are left to Spark."""


def input_schema(schema: StructType) -> pa.Schema:
    return pa.schema([pa.field(f.name, _arrow(f.dataType), f.nullable) for f in schema.fields])


def _arrow(type: DataType) -> pa.DataType:
    try:
        if "variant" in type.simpleString():
            return OPAQUE
        return arrow_schema(StructType([StructField("c", type)])).field(0).type
    except (PySparkException, pa.ArrowException):
        return OPAQUE


def refuse_opaque(shape: Shape, types: Mapping[tuple[str, str], DataType]) -> None:
    """Refuse a query whose rows would have to carry such a column."""
    for i, alias in enumerate(shape.aliases):
        for name in shape.read(i):
            if shape.query.inputs[i].spec.schema.field(name).type == OPAQUE:
                raise DefinitionError(
                    f"'{alias}.{name}' is {types[alias, name].simpleString()}, which can't travel to Python",
                    hint="CAST it to a string or a number in the DataFrame, or use it only in conditions over its input",
                )
