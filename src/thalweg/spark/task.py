"""Which task of which micro-batch this code runs in."""

from __future__ import annotations

from pyspark import TaskContext


def batch_number() -> int | None:
    """The micro-batch this task belongs to; None in a batch job."""
    task = TaskContext.get()
    number = task.getLocalProperty("streaming.sql.batchId") if task else None
    return int(number) if number is not None else None


def query_id() -> str | None:
    """The streaming query this task belongs to, the same after a restart from its checkpoint; None in a batch job."""
    task = TaskContext.get()
    return task.getLocalProperty("sql.streaming.queryId") if task else None


def partition() -> int:
    """The task's number within its stage; 0 outside Spark."""
    task = TaskContext.get()
    return task.partitionId() if task else 0
