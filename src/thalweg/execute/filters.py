"""Filters: one predicate of one input, evaluated on chosen rows of a batch.

A predicate is called only with the rows it is given, and with at least one. NULL is not true. A row on which it raises
or returns a non-boolean gets an error, which the fabric may forgive; for a vectorised predicate we halve the rows until
we find the faulty ones. A wrong number of verdicts can't be blamed on a row and is raised at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.errors import PredicateError
from thalweg.language.functions import Kind, python_values

Rows = NDArray[np.int64]
Reader = Callable[[pa.Array], Any]


BOOLEANS = {bool, np.bool_, type(None)}


class NoVerdict(PredicateError):
    """A predicate returned something other than true, false or NULL for a row."""


class WrongCount(PredicateError):
    """A vectorised predicate returned the wrong number of verdicts."""


@dataclass(frozen=True)
class Verdict:
    """Which of the given rows pass, and the errors of rows without a verdict, by position among the given rows."""

    holds: NDArray[np.bool_]
    errors: dict[int, Exception] = field(default_factory=dict)


@dataclass(frozen=True)
class Filter:
    """A named predicate over columns. `readers` turn an Arrow column into what the function takes.

    >>> even = Filter("even", lambda x: x % 2 == 0, ("x",))
    >>> batch = pa.record_batch({"x": [1, 2, 3, 4]})
    >>> even.evaluate(batch, np.array([1, 2, 3])).holds.tolist()
    [True, False, True]
    """

    name: str
    function: Callable[..., Any]
    columns: tuple[str, ...]
    kind: Kind = "row"
    readers: tuple[Reader | None, ...] = ()

    def evaluate(self, batch: pa.RecordBatch, rows: Rows | None) -> Verdict:
        """Judge the rows at these positions (None: all). There must be at least one."""
        arrays = [batch.column(c) for c in self.columns]
        count = batch.num_rows
        if rows is not None and not _all_in_order(rows, count):
            picked = pa.array(rows)
            arrays = [a.take(picked) for a in arrays]
            count = len(rows)
        if not arrays:
            return self._constant(count)
        if self.kind == "row":
            return self._row_by_row(arrays)
        return self._vectorised(arrays, count)

    def _constant(self, count: int) -> Verdict:
        """A predicate over no columns has one verdict for all rows."""
        try:
            held = self.function()
        except Exception as error:
            return Verdict(np.ones(count, np.bool_), dict.fromkeys(range(count), error))
        if type(held) not in BOOLEANS:
            return Verdict(np.ones(count, np.bool_), dict.fromkeys(range(count), self._no_verdict(_described(held))))
        return Verdict(np.full(count, bool(held)))

    def _row_by_row(self, arrays: Sequence[pa.Array]) -> Verdict:
        values = [self._read(a, i, python_values) for i, a in enumerate(arrays)]
        judged: list[Any] = []
        errors: dict[int, Exception] = {}
        calls = map(self.function, *values)
        count = len(arrays[0])
        while len(judged) < count:
            try:
                judged.extend(calls)
                if len(judged) < count:
                    raise StopIteration  # only the function can have raised it: there are rows left
            except Exception as error:
                errors[len(judged)] = error
                judged.append(True)
        if not set(map(type, judged)) <= BOOLEANS:
            for i, said in enumerate(judged):
                if type(said) not in BOOLEANS:
                    errors[i] = self._no_verdict(_described(said))
                    judged[i] = True
        return Verdict(np.array(judged, dtype=np.bool_), errors)

    def _vectorised(self, arrays: Sequence[pa.Array], count: int) -> Verdict:
        try:
            mask = self._mask(self.function(*self._vectors(arrays)), count)
        except WrongCount:
            raise
        except Exception as error:
            if count == 1:
                return Verdict(np.ones(1, np.bool_), {0: error})
            half = count // 2
            head = self._vectorised([a.slice(0, half) for a in arrays], half)
            tail = self._vectorised([a.slice(half) for a in arrays], count - half)
            errors = head.errors | {half + i: e for i, e in tail.errors.items()}
            return Verdict(np.concatenate([head.holds, tail.holds]), errors)
        return Verdict(mask)

    def _vectors(self, arrays: Sequence[pa.Array]) -> list[Any]:
        default: Reader = (lambda a: a) if self.kind == "arrow" else pandas_values
        return [self._read(a, i, default) for i, a in enumerate(arrays)]

    def _read(self, array: pa.Array, i: int, default: Reader) -> Any:
        reader = self.readers[i] if self.readers else None
        return (reader or default)(array)

    def _mask(self, returned: Any, count: int) -> NDArray[np.bool_]:
        """A vectorised verdict as plain booleans, NULL as False; anything else raises."""
        if isinstance(returned, pa.ChunkedArray):
            returned = returned.combine_chunks()
        if isinstance(returned, pa.Array):
            if not (pa.types.is_boolean(returned.type) or pa.types.is_null(returned.type)):
                raise self._no_verdict(f"an Arrow array of {returned.type}")
            mask = np.asarray(returned.cast(pa.bool_()).fill_null(False).to_numpy(zero_copy_only=False))
        elif isinstance(returned, (pd.Series, np.ndarray, pd.api.extensions.ExtensionArray, list, tuple)):
            values = np.asarray(returned, dtype=object) if not _is_plain_bool(returned) else np.asarray(returned)
            if values.dtype == object:
                missing = np.asarray(pd.isna(values), dtype=np.bool_)
                odd = next((v for v in values[~missing] if not isinstance(v, (bool, np.bool_))), None)
                if odd is not None:
                    raise self._no_verdict(_described(odd))
                values = np.where(missing, False, values)
            mask = values.astype(np.bool_)
        else:
            raise self._no_verdict(f"a {type(returned).__name__}")
        if mask.shape != (count,):
            found = f"{len(mask)} verdicts" if mask.ndim == 1 else f"an array of shape {mask.shape}"
            raise WrongCount(
                f"predicate '{self.name}' was given {count} rows and returned {found}",
                hint="a vectorised predicate returns one boolean for each row it gets",
            )
        return mask

    def _no_verdict(self, what: str) -> NoVerdict:
        return NoVerdict(
            f"predicate '{self.name}' returned {what} where True, False or None was expected",
            hint="wrap it: return bool(...)" if self.kind == "row" else "return booleans, for example a comparison",
        )


def pandas_values(array: pa.Array) -> Any:
    return array.to_pandas()


def _is_plain_bool(values: Any) -> bool:
    return getattr(values, "dtype", None) == np.bool_


def _all_in_order(rows: Rows, count: int) -> bool:
    return len(rows) == count and bool((rows[1:] > rows[:-1]).all())


def _described(value: Any) -> str:
    text = repr(value)
    return f"a {type(value).__name__} ({text if len(text) <= 60 else text[:57] + '...'})"
