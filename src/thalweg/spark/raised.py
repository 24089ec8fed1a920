"""Errors as they were raised: what a Python worker said, out of the many lines that Spark wraps around it.

A worker's exception reaches the driver only as text inside a StreamingQueryException or a PythonException. Here it
becomes a Thalweg error of its own class again, whose first line is the message; Spark's exception is its cause.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.errors import PySparkException

from thalweg import errors
from thalweg.errors import CheckpointError, ThalwegError

_RAISED = re.compile(r"^(?:[\w.]+: )*thalweg\.(?:\w+\.)*(\w+): (.*)$", re.MULTILINE)
_TWICE = (
    "CONCURRENT_STREAM_LOG_UPDATE", "CONCURRENT_QUERY", "Multiple streaming queries are concurrently using",
    "another query with same id is already active", "another writer already committed this batch",
)  # fmt: skip
"""What Spark says of a second query on one checkpoint: of another driver, and of the same session."""
_KINDS = {"NoVerdict": "PredicateError", "WrongCount": "PredicateError"}


def reraised(error: BaseException) -> ThalwegError | None:
    """The Thalweg error inside one of Spark's, or None."""
    text = str(error)
    if any(sign in text for sign in _TWICE):
        return CheckpointError(
            "another driver is running a query on this checkpoint",
            hint="stop one of them; each query needs a checkpoint folder of its own",
        )
    told = list(_RAISED.finditer(text))
    if not told:
        return None
    found = told[-1]  # what was raised; those before it are its causes
    kind = getattr(errors, _KINDS.get(found[1], found[1]), ThalwegError)
    rest = text[found.end() :].splitlines()[1:]
    own = []
    for line in rest:
        if not line.startswith("  ") or line.lstrip().startswith(("at ", "File ")):
            break
        own.append(line[2:])
    hint = next((line.removeprefix("hint: ") for line in own if line.startswith("hint: ")), None)
    where = "\n".join(line for line in own if not line.startswith("hint: ")) or None
    made = kind(found[2], hint=hint, where=where)
    assert isinstance(made, ThalwegError)
    return made


@contextmanager
def plain_errors() -> Iterator[None]:
    """Let Thalweg's errors out of Spark's: `with tw.plain_errors(): df.collect()` raises `tw.PredicateError`."""
    try:
        yield
    except PySparkException as error:
        own = reraised(error)
        if own is None:
            raise
        raise own from error


def await_termination(query: Any, timeout: float | None = None) -> bool:
    """`query.awaitTermination(timeout)`, but a Thalweg error is raised as what it is; True once the query has ended."""
    with plain_errors():
        ended = query.awaitTermination(timeout)
        if ended is not False and query.exception() is not None:
            raise query.exception()
    return ended is not False
