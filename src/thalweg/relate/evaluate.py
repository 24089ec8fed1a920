"""Expressions over the rows of a relation, by column name; `result_time` is the time of the change."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.contract.relation import Changes
from thalweg.errors import PredicateError
from thalweg.language.algebra import RESULT_TIME
from thalweg.language.scalar.expression import Expression, Frame, Unanswerable
from thalweg.relate.instants import Ticks, timestamps


def columns_of(changes: Changes, ticks: Ticks) -> dict[str, pa.Array]:
    columns = dict(zip(changes.rows.column_names, changes.rows.columns, strict=True))
    if RESULT_TIME not in columns:
        columns[RESULT_TIME] = timestamps(changes.time, ticks)
    return columns


def evaluated(expression: Expression, columns: Mapping[str, pa.Array], rows: int) -> pa.Array:
    try:
        return expression.array(Frame(columns, rows))
    except Unanswerable as error:
        raise PredicateError(str(error), hint="Spark raises here too; guard it with CASE") from None


def holds(condition: Expression, columns: Mapping[str, pa.Array], rows: int) -> NDArray[np.bool_]:
    """Where a condition is true, and neither false nor NULL."""
    array = evaluated(condition, columns, rows)
    return np.asarray(array.fill_null(False).to_numpy(zero_copy_only=False), np.bool_)
