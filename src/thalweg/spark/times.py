"""The time column of a stream, checked where the user names it: it is there, it is a time, and its unit is known."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.types import DateType, IntegralType, TimestampNTZType, TimestampType

from thalweg.errors import DefinitionError, did_you_mean
from thalweg.language.query import UNITS


def time_column(df: DataFrame, time: str, unit: str | None) -> None:
    """Raise if the column can't be the time of a stream."""
    types = {f.name.lower(): f.dataType for f in df.schema.fields}
    if not isinstance(time, str) or time.lower() not in types:
        raise DefinitionError(f"there is no time column '{time}'", hint=did_you_mean(str(time), df.columns))
    kind = types[time.lower()]
    if unit is not None and unit not in UNITS:
        raise DefinitionError(f"no unit of time '{unit}'", hint='one of "s", "ms" and "us"')
    if isinstance(kind, IntegralType):
        if unit is None:
            raise DefinitionError(
                f"time column '{time}' is {kind.simpleString()}: nothing says what it counts",
                hint='give the unit, unit="s", "ms" or "us", or make it a timestamp',
            )
    elif not isinstance(kind, TimestampType | TimestampNTZType | DateType):
        raise DefinitionError(
            f"time column '{time}' is {kind.simpleString()}",
            hint="a time is a timestamp, a date, or an integer with a unit",
        )
    elif unit is not None:
        raise DefinitionError(
            f"time column '{time}' is {kind.simpleString()}, which has its own unit", hint=f'leave unit="{unit}" out'
        )
