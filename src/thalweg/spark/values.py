"""How Spark's column types become what a predicate takes: the same values that a Spark UDF would get.

Row functions: Row for structs, dict for maps, naive local datetime for timestamps. Pandas functions: naive local
timestamps, as in pandas_udf. Types that Arrow turns into the right values by itself need no reader.
"""

from __future__ import annotations

from pyspark.sql.types import ArrayType, DataType, MapType, StructType, TimestampType, UserDefinedType

from thalweg.execute.filters import Reader
from thalweg.language.functions import Kind
from thalweg.spark.compat import pandas_of, rows_of


def reader(kind: Kind, data_type: DataType, timezone: str) -> Reader | None:
    """The reader for one column, or None if Arrow's own conversion is right."""
    if kind == "row":
        return rows_of(data_type)
    nested = (StructType, ArrayType, MapType, TimestampType, UserDefinedType)
    if kind == "pandas" and isinstance(data_type, nested):
        return lambda array: pandas_of(array, data_type, timezone)
    return None
