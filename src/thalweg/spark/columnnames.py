"""Names on the way to Python: `mapInArrow` takes no column whose name has a dot or a backtick, so those travel numbered.

On the other side columns are known by their places, and get their own names back.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from thalweg.language.text.quoting import quoted


def travelling(names: Sequence[str]) -> list[str]:
    """
    >>> travelling(["a", "b.c"])
    ['a', '__c1']
    """
    return [f"__c{k}" if "." in n or "`" in n else n for k, n in enumerate(names)]


def column(name: str) -> Column:
    """A column by its whole name, whatever is in it."""
    return F.col(quoted(name))


def ready(df: DataFrame) -> DataFrame:
    """The same columns under names that can travel."""
    names = travelling(df.columns)
    return (
        df if names == df.columns else df.select(*[column(c).alias(n) for c, n in zip(df.columns, names, strict=True)])
    )
