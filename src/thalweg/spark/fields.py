"""Fields inside struct columns, named by their path: `position.lat`. A column that is called so itself comes first."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import DataType, StructField, StructType


def fields_of(schema: StructType, path: str) -> list[str]:
    """The path as the schema spells it: none if there is no such field, several if case alone tells them apart."""
    return [".".join(f.name for f in steps) for steps in _steps(schema, path)]


def type_of(schema: StructType, path: str) -> DataType:
    return schema[path].dataType if path in schema.names else _steps(schema, path)[0][-1].dataType


def field_of(batch: pa.RecordBatch, schema: StructType, path: str) -> pa.Array:
    first, *inner = (f.name for f in _steps(schema, path)[0])
    array = batch.column(first)
    for name in inner:
        array = pc.struct_field(array, name)
    return array


def _steps(schema: StructType, path: str) -> list[list[StructField]]:
    """The ways to walk a path, by the same rule as for columns: spelled exactly, else apart from case."""
    head, _, rest = path.partition(".")
    exact = [f for f in schema.fields if f.name == head]
    found = exact or [f for f in schema.fields if f.name.lower() == head.lower()]
    if not rest:
        return [[f] for f in found]
    inside = [(f, f.dataType) for f in found]
    return [[f, *steps] for f, t in inside if isinstance(t, StructType) for steps in _steps(t, rest)]
