"""Quarantine: rows that were set aside travel to the user's sink in the column `_quarantine`, in the same batch.

So they are written exactly once with the results, wherever those go; no folder that all machines see is needed. The
column is NULL for every other row, as in Spark's own `_corrupt_record`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StringType, StructField, StructType, TimestampType

from thalweg.engine.gate import Gate
from thalweg.errors import DefinitionError, did_you_mean
from thalweg.execute.faults import MODES, Fault, as_json
from thalweg.language.algebra import Emit, Keep, Match
from thalweg.language.scalar.expression import Call
from thalweg.spark.unpack import ASIDE
from thalweg.state.store import write_ipc

COLUMN = ASIDE
BAD = "\0bad"
"""The input of a packed line with rows in quarantine."""
ARROW = pa.struct(
    [("input", pa.string()), ("predicate", pa.string()), ("reason", pa.string()), ("row", pa.string()),
     ("at", pa.timestamp("us", "UTC"))]
)  # fmt: skip
TYPE = StructType(
    [StructField(n, StringType()) for n in ("input", "predicate", "reason", "row")]
    + [StructField("at", TimestampType())]
)
FIELD = StructField(COLUMN, TYPE)


def checked(on_error: str) -> str:
    if on_error not in MODES:
        raise DefinitionError(f"no on_error '{on_error}'", hint=did_you_mean(str(on_error), MODES))
    return on_error


def check_settable(root: Emit, on_error: str) -> None:
    """Refuse a whole query of which bad rows could not be set aside: only join blocks do that."""
    for node in root.walk():
        condition = node.condition if isinstance(node, Keep | Match) else None
        for called in () if condition is None else (e for e in condition.walk() if isinstance(e, Call)):
            raise DefinitionError(
                f"on_error=\"{on_error}\": '{called.name}' compares rows of an outer join or groups, which can't be set aside",
                hint="let it catch its own errors, or call it in a condition over one input",
            )
    if on_error == "quarantine" and (root.limit is not None or root.offset):
        raise DefinitionError(
            'on_error="quarantine" and LIMIT: bad rows come out beside the others, and would count among them',
            hint="leave LIMIT to the DataFrame: df.where('_quarantine IS NULL').limit(n)",
        )


def array(faults: Iterable[Fault]) -> pa.Array:
    """Faults as values of the column."""
    now = datetime.now(UTC)
    lines = [
        {"input": f.input or None, "predicate": f.predicate or None, "reason": f.reason, "row": f.row, "at": now}
        for f in faults
    ]
    return pa.array(lines, ARROW)


def blob(faults: Iterable[Fault]) -> bytes:
    """Faults as a packed blob that `unpack` takes."""
    return write_ipc(pa.table({COLUMN: array(faults)}))


def refused(gate: Gate, alias: str) -> list[Fault]:
    """The rows that the gate refused."""
    return [
        Fault(alias, "", reason, as_json(row))
        for reason, batch in gate.refused
        for row in batch.to_pylist()
    ]  # fmt: skip


Writer = Callable[[DataFrame, int], Any]


def divided(good: Writer, bad: Writer) -> Writer:
    """A function for `foreachBatch` that writes results with one writer and rows in quarantine with another.

    >>> df.writeStream.foreachBatch(tw.divided(good=to_lake, bad=to_dead_letters))  # doctest: +SKIP
    """

    def write(batch: DataFrame, number: int) -> None:
        batch.persist()
        try:
            good(batch.where(f"{COLUMN} IS NULL").drop(COLUMN), number)
            bad(batch.where(f"{COLUMN} IS NOT NULL").select(f"{COLUMN}.*"), number)
        finally:
            batch.unpersist()

    return write
