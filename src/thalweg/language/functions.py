"""The user's Python functions in a query: how they want their arguments, and what they give back.

A function sees rows (plain values, one call each) unless its annotations, or the pyspark udf it is wrapped in, ask for
whole columns. What it returns is a verdict where a condition stands, and else what its return annotation says.
"""

from __future__ import annotations

import datetime
import decimal
import inspect
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from thalweg.errors import DefinitionError, PredicateError
from thalweg.language.calls import Kind, python_values
from thalweg.language.predicate import UDF_KINDS, OneBatch

_ARROW = (pa.Array, pa.ChunkedArray)
_RESULTS: dict[Any, pa.DataType] = {
    bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string(), bytes: pa.binary(),
    datetime.date: pa.date32(), np.bool_: pa.bool_(),
}  # fmt: skip
_SPARK_RESULTS = {
    "boolean": pa.bool_(), "tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64(),
    "float": pa.float32(), "double": pa.float64(), "string": pa.string(), "binary": pa.binary(), "date": pa.date32(),
    "timestamp_ntz": pa.timestamp("us"), "timestamp": pa.timestamp("us", "UTC"),
}  # fmt: skip


@dataclass(frozen=True)
class Signature:
    """How to call a function, and the type it declares to return (None: it does not say)."""

    call: Callable[..., Any]
    kind: Kind
    result: pa.DataType | None

    def takes(self, arguments: int) -> bool:
        """Whether it can be called with so many arguments."""
        try:
            inspect.signature(self.call).bind(*[None] * arguments)
        except TypeError:
            return False
        except ValueError:  # built-in functions that do not tell
            return True
        return True


def signature(function: Callable[..., Any]) -> Signature:
    """Read how a function wants to be called off its annotations.

    >>> def long_delay(minutes: pa.Array) -> pa.Array: ...
    >>> signature(long_delay).kind
    'arrow'
    >>> def doubled(x) -> float: ...
    >>> signature(doubled).kind, signature(doubled).result
    ('row', DataType(double))
    """
    wrapped, evaluated = getattr(function, "func", None), getattr(function, "evalType", None)
    if callable(wrapped) and isinstance(evaluated, int):
        return _udf(function, wrapped, evaluated)
    hints = _hints(function)
    result = hints.pop("return", None)
    if any(_is(h, _ARROW) for h in hints.values()) or (not hints and _is(result, _ARROW)):
        return Signature(function, "arrow", None)
    if any(_is(h, (pd.Series,)) for h in hints.values()) or (not hints and _is(result, (pd.Series,))):
        return Signature(function, "pandas", None)
    return Signature(function, "row", _result(result))


def _udf(function: Callable[..., Any], wrapped: Callable[..., Any], evaluated: int) -> Signature:
    """A pyspark udf, called without Spark."""
    shown = getattr(function, "__name__", "udf")
    if evaluated not in UDF_KINDS:
        raise DefinitionError(f"udf '{shown}' is not a scalar one", hint="use udf, pandas_udf or arrow_udf")
    if not getattr(function, "deterministic", True):
        raise DefinitionError(f"udf '{shown}' is marked nondeterministic: a replayed batch could give other rows",
                              hint="leave out .asNondeterministic()")  # fmt: skip
    declared = getattr(function, "returnType", None)
    spoken = declared if isinstance(declared, str) else getattr(declared, "simpleString", lambda: "")()
    kind, iterates = UDF_KINDS[evaluated]
    return Signature(OneBatch(wrapped) if iterates else wrapped, kind, _SPARK_RESULTS.get(spoken))


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    target = function if inspect.isroutine(function) or not hasattr(function, "__call__") else function.__call__  # noqa: B004
    try:
        return typing.get_type_hints(target)
    except Exception:
        # Annotations may name what only a type checker can see; then the words themselves must do.
        return dict(getattr(target, "__annotations__", {}))


def _is(hint: Any, classes: tuple[Any, ...]) -> bool:
    if isinstance(hint, str):
        return any(hint.split(".")[-1].split("[")[0] == c.__name__ for c in classes)
    origin = typing.get_origin(hint) or hint
    return isinstance(origin, type) and issubclass(origin, classes)


def _result(hint: Any) -> pa.DataType | None:
    members = [a for a in typing.get_args(hint) if a is not type(None)]
    if isinstance(hint, str):
        named = {c.__name__: t for c, t in _RESULTS.items()}
        words = [w.strip() for w in hint.split("|") if w.strip() != "None"]
        return named.get(words[0]) if len(words) == 1 else None
    if len(members) == 1 and type(None) in typing.get_args(hint):
        hint = members[0]
    return _RESULTS.get(hint)


def call(name: str, kind: Kind, function: Callable[..., Any], arguments: Sequence[pa.Array], rows: int,
         type: pa.DataType) -> pa.Array:  # fmt: skip
    """Call a function on columns; its results as one array of the given type."""
    if kind == "row":
        columns = [python_values(a) for a in arguments]
        returned: Any = [function(*row) for row in zip(*columns, strict=True)] if columns else [
            function() for _ in range(rows)
        ]  # fmt: skip
    elif kind == "arrow":
        returned = function(*arguments)
    else:
        returned = function(*[a.to_pandas() for a in arguments])
    return _array(name, returned, rows, type)


def _array(name: str, returned: Any, rows: int, type: pa.DataType) -> pa.Array:
    verdict = pa.types.is_boolean(type)
    wanted = "true, false or None" if verdict else str(type)
    if isinstance(returned, pa.ChunkedArray):
        returned = returned.combine_chunks()
    if not hasattr(returned, "__len__") or len(returned) != rows:
        found = f"{len(returned)} values" if hasattr(returned, "__len__") else f"a single {returned!r}"
        raise PredicateError(f"{name} returned {found} for {rows} rows", hint="return one value for each row")
    if isinstance(returned, list) and verdict:
        odd = next((v for v in returned if v is not None and not isinstance(v, bool | np.bool_)), None)
        if odd is not None:
            raise PredicateError(f"{name} returned {odd!r}, which is no verdict", hint=f"return {wanted}")
        return pa.array([None if v is None else bool(v) for v in returned], pa.bool_())
    try:
        array = returned
        if not isinstance(array, pa.Array):
            array = pa.array(returned, None if verdict else type, from_pandas=isinstance(returned, pd.Series))
        if verdict and not (pa.types.is_boolean(array.type) or pa.types.is_null(array.type)):
            raise PredicateError(f"{name} returned {array.type}, which is no verdict", hint=f"return {wanted}")
        return array if array.type == type else array.cast(type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, decimal.InvalidOperation) as error:
        raise PredicateError(f"{name} returned something that is no {wanted}: {error}",
                             hint="return what its annotation says") from None  # fmt: skip
