"""The user's Python functions: how they want their arguments, and what they give back.

A function sees rows (plain values, one call for each) unless its annotations, or the pyspark udf it is wrapped in, ask
for whole columns. Where a condition stands it returns a verdict; elsewhere, what its return annotation says.
"""

from __future__ import annotations

import datetime
import decimal
import inspect
import typing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa

from thalweg.errors import DefinitionError, PredicateError

Kind = Literal["row", "arrow", "pandas"]
"""Called with one row's values, with Arrow arrays, or with pandas Series."""

_COLUMNS: dict[Kind, tuple[type, ...]] = {"arrow": (pa.Array, pa.ChunkedArray), "pandas": (pd.Series, pd.DataFrame)}
_UDF_KINDS: dict[int, Kind] = {100: "row", 101: "row", 200: "pandas", 204: "pandas", 250: "arrow", 251: "arrow"}
_UDF_ITERATORS = (204, 251)
"""pyspark's evalType of scalar udfs, and of those that take an iterator of batches."""
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
    """How to call a function, and the type it declares to return (None if it declares none)."""

    call: Callable[..., Any]
    kind: Kind
    result: pa.DataType | None

    def takes(self, arguments: int) -> bool:
        """Whether it can be called with this number of arguments."""
        try:
            inspect.signature(self.call).bind(*[None] * arguments)
        except (TypeError, ValueError) as error:  # ValueError: some built-in functions have no signature
            return isinstance(error, ValueError)
        return True


def signature(function: Callable[..., Any]) -> Signature:
    """Read how a function wants to be called from its annotations.

    >>> def long_delay(minutes: pa.Array) -> pa.Array: ...
    >>> signature(long_delay).kind
    'arrow'
    >>> def doubled(x) -> float: ...
    >>> signature(doubled).kind, signature(doubled).result
    ('row', DataType(double))
    """
    if is_udf(function):
        return _udf(function)
    *parameters, result = _hints(function)
    for kind, classes in _COLUMNS.items():
        if any(_is(h, classes) for h in (*parameters, result)):
            return Signature(function, kind, None)
    return Signature(function, "row", _result(result))


def declared(function: Callable[..., Any]) -> pa.DataType | None:
    """The type that a function's return annotation declares."""
    return _result(_hints(function)[-1])


def is_udf(function: Any) -> bool:
    return callable(getattr(function, "func", None)) and isinstance(getattr(function, "evalType", None), int)


def udf_result(function: Any) -> str:
    """The type that a pyspark udf declares, as Spark spells it."""
    declared = getattr(function, "returnType", None)
    return declared if isinstance(declared, str) else str(getattr(declared, "simpleString", lambda: "")())


def _udf(function: Any) -> Signature:
    """A pyspark udf, called without Spark."""
    shown = getattr(function, "__name__", "udf")
    if function.evalType not in _UDF_KINDS:
        raise DefinitionError(f"udf '{shown}' is not a scalar one", hint="use udf, pandas_udf or arrow_udf")
    if not getattr(function, "deterministic", True):
        raise DefinitionError(f"udf '{shown}' is marked nondeterministic: a replayed batch could give other rows",
                              hint="leave out .asNondeterministic()")  # fmt: skip
    called = _OneBatch(function.func) if function.evalType in _UDF_ITERATORS else function.func
    return Signature(called, _UDF_KINDS[function.evalType], _SPARK_RESULTS.get(udf_result(function)))


@dataclass(frozen=True)
class _OneBatch:
    """Calls an iterator udf with a single batch."""

    function: Callable[..., Iterator[Any]]

    def __call__(self, *columns: Any) -> Any:
        given = columns[0] if len(columns) == 1 else columns
        return next(iter(self.function(iter([given]))))


def _hints(function: Callable[..., Any]) -> list[Any]:
    """The annotations of the parameters and, last, of the result."""
    for evaluated in (True, False):
        try:
            found = inspect.signature(function, eval_str=evaluated)
        except Exception:  # an annotation that only a type checker can evaluate (try its text), or a built-in
            continue
        hints = [p.annotation for p in found.parameters.values()] + [found.return_annotation]
        return [None if h is inspect.Parameter.empty else h for h in hints]
    return [None]


def _is(hint: Any, classes: tuple[type, ...]) -> bool:
    if isinstance(hint, str):
        return any(hint.split(".")[-1].split("[")[0] == c.__name__ for c in classes)
    origin = typing.get_origin(hint) or hint
    return isinstance(origin, type) and issubclass(origin, classes)


def _result(hint: Any) -> pa.DataType | None:
    if isinstance(hint, str):
        named = {c.__name__: t for c, t in _RESULTS.items()}
        words = [w.strip() for w in hint.split("|") if w.strip() != "None"]
        return named.get(words[0]) if len(words) == 1 else None
    members = [a for a in typing.get_args(hint) if a is not type(None)]
    optional = len(members) == 1 and type(None) in typing.get_args(hint)
    return _RESULTS.get(members[0] if optional else hint)


def python_values(array: pa.Array) -> list[Any]:
    """A column as Python values; numbers without NULLs go through NumPy, which is several times faster."""
    t = array.type
    if array.null_count == 0 and (pa.types.is_integer(t) or pa.types.is_floating(t)):
        return list(array.to_numpy(zero_copy_only=False).tolist())
    return list(array.to_pylist())


def call(name: str, kind: Kind, function: Callable[..., Any], arguments: Sequence[pa.Array], rows: int,
         type: pa.DataType) -> pa.Array:  # fmt: skip
    """Call a function on columns; its results as one array of the given type."""
    if kind == "row":
        columns = [python_values(a) for a in arguments]
        values = zip(*columns, strict=True) if columns else iter([()] * rows)
        return _array(name, [function(*row) for row in values], rows, type)
    return _array(name, function(*(arguments if kind == "arrow" else [a.to_pandas() for a in arguments])), rows, type)


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
        raise PredicateError(f"{name} returned something other than {wanted}: {error}",
                             hint="return what its annotation says") from None  # fmt: skip
