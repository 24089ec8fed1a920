"""How Spark's column types become what a predicate takes: the same values that a Spark UDF would get.

Row functions: Row for structs, dict for maps, naive local datetime for timestamps. Pandas functions: naive local
timestamps, as in pandas_udf. Types that Arrow turns into the right values by itself need no reader.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql.conversion import ArrowArrayToPandasConversion, ArrowTableToRowsConversion
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, TimestampType, UserDefinedType

from thalweg.execute.filters import Reader
from thalweg.language.functions import Kind


def reader(kind: Kind, data_type: DataType, timezone: str) -> Reader | None:
    """The reader for one column, or None if Arrow's own conversion is right."""
    if kind == "row":
        return _row_reader(data_type)
    if kind == "pandas":
        return _pandas_reader(data_type, timezone)
    return None


def _row_reader(data_type: DataType) -> Reader | None:
    convert = ArrowTableToRowsConversion._create_converter(data_type, none_on_identity=True)
    if convert is None:
        return None
    return lambda array: [convert(v) for v in array.to_pylist()]


def _pandas_reader(data_type: DataType, timezone: str) -> Reader | None:
    nested = (StructType, ArrayType, MapType, TimestampType, UserDefinedType)
    if not isinstance(data_type, nested):
        return None

    def read(array: pa.Array) -> Any:
        return ArrowArrayToPandasConversion.convert(
            array, data_type, timezone=timezone, struct_in_pandas="dict", df_for_struct=True
        )

    return read
