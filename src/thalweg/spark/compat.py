"""Every difference between the versions of Spark that Thalweg runs on: 4.1 to 4.3, and 4.0 for filters.

The rest of `spark/` imports from here and asks for no version. What is private in pyspark and drifts is used here only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyspark
from pyspark.sql import SparkSession
from pyspark.sql.conversion import ArrowTableToRowsConversion
from pyspark.sql.pandas import types as _types
from pyspark.sql.types import DataType, StructType

from thalweg.errors import DefinitionError

if TYPE_CHECKING:  # brings pandas, which the processes that plan a source can do without
    from thalweg.execute.filters import Reader

VERSION = tuple(int(n) for n in pyspark.__version__.split(".")[:2])
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_STREAMING = "org.apache.spark.sql.execution.streaming"
CHECKPOINT_MANAGER = (
    f"{_STREAMING}.checkpointing.FileSystemBasedCheckpointFileManager"
    if VERSION >= (4, 1)
    else f"{_STREAMING}.FileSystemBasedCheckpointFileManager"
)
"""The file manager of local checkpoints; its package moved in 4.1."""

ADMISSION = VERSION >= (4, 2)
"""Whether a Python source is told where a batch starts and how many rows it may have."""

if ADMISSION:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, SupportsTriggerAvailableNow
else:

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Spark 4.1 has no such thing."""


def read_limit(rows: int | None) -> Any:
    """Spark's limit on the rows of a batch; None for all rows."""
    return ReadAllAvailable() if rows is None else ReadMaxRows(rows)


def rows_allowed(limit: Any) -> int | None:
    """The rows that Spark's limit allows; None for all."""
    return limit.max_rows if isinstance(limit, ReadMaxRows) else None


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema of a Spark schema, with times in UTC."""
    if VERSION >= (4, 2):
        return _types.to_arrow_schema(schema, timezone="UTC")
    return _types.to_arrow_schema(schema, timestamp_utc=True)  # type: ignore[call-arg]


def spark_schema(schema: pa.Schema) -> StructType:
    """The Spark schema of an Arrow schema; a time with a zone is Spark's timestamp."""
    return _types.from_arrow_schema(schema)


def rows_of(data_type: DataType) -> Reader | None:
    """Turns an Arrow column into the values that a row function gets; None if Arrow does that by itself."""
    conversion = ArrowTableToRowsConversion
    if VERSION >= (4, 1):
        convert = conversion._create_converter(data_type, none_on_identity=True)
    else:
        convert = conversion._create_converter(data_type) if conversion._need_converter(data_type) else None
    if convert is None:
        return None
    return lambda array: [convert(v) for v in array.to_pylist()]


def pandas_of(array: pa.Array, data_type: DataType, timezone: str) -> Any:
    """An Arrow column as a pandas_udf would get it: a struct as a DataFrame, times naive and local."""
    if VERSION >= (4, 2):
        from pyspark.sql.conversion import ArrowArrayToPandasConversion

        return ArrowArrayToPandasConversion.convert(
            array, data_type, timezone=timezone, struct_in_pandas="dict", df_for_struct=True
        )
    if isinstance(data_type, StructType):
        import pandas as pd

        columns = zip(array.flatten(), data_type.fields, strict=True)
        return pd.concat([_series(c, f.dataType, timezone).rename(f.name) for c, f in columns], axis=1)
    return _series(array, data_type, timezone)


def _series(array: pa.Array, data_type: DataType, timezone: str) -> Any:
    convert = _types._create_converter_to_pandas(data_type, timezone=timezone, struct_in_pandas="dict")
    return convert(array.to_pandas(date_as_object=True, coerce_temporal_nanoseconds=True))


def texts_of(observed: Any) -> list[str]:
    """The texts that an Observation collected: a list, but in 4.0 the JVM's own sequence."""
    if observed is None or VERSION >= (4, 1) or isinstance(observed, list | tuple):
        return list(observed or [])
    return [observed.apply(i) for i in range(observed.size())]


def is_connect(spark: SparkSession) -> bool:
    """Whether the session speaks to a Spark Connect server: it has no context and no JVM of its own."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def need_joins(what: str = "tw.sql") -> None:
    """Raise if this Spark has no stateful operator in Row form."""
    if VERSION < (4, 1):
        raise DefinitionError(
            f"{what} needs Spark 4.1 or newer, this is {pyspark.__version__}",
            hint="tw.where works here; pip install 'pyspark>=4.1,<4.4' for joins",
        )


__all__ = [
    "ADMISSION",
    "CHECKPOINT_MANAGER",
    "ROCKSDB",
    "VERSION",
    "SupportsTriggerAvailableNow",
    "arrow_schema",
    "is_connect",
    "need_joins",
    "pandas_of",
    "read_limit",
    "rows_allowed",
    "rows_of",
    "texts_of",
]
