"""sum and avg of integers and decimals, exactly.

A value is cut into pieces of 32 bits and the pieces are summed apart, so no sum on the way overflows. What matters is
the sum at an instant: as Spark in ANSI mode, it raises where that does not fit into the result's type.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from thalweg.errors import AggregateError
from thalweg.language.scalar.decimals import from_unscaled
from thalweg.language.scalar.expression import Unanswerable
from thalweg.relate.aggregates.contract import InFields, Ints, Touched
from thalweg.relate.aggregates.counts import running
from thalweg.relate.rows.dictionary import Dictionary
from thalweg.state.columns import to_arrow
from thalweg.state.keys import plain, raw, validity

PIECE = (1 << 32) - 1


class ExactSum(InFields):
    """The sum, or the mean, of integers or decimals. State: how many are not NULL, and the sums of the pieces."""

    def __init__(self, groups: Dictionary, field: str, argument: pa.DataType, result: pa.DataType, mean: bool) -> None:
        self._groups, self._field, self._result, self._mean = groups, field, result, mean
        self._argument = argument
        self._words = 2 if pa.types.is_decimal(argument) else 1
        groups.add_field(field, width=1 + 2 * self._words)

    def step(self, touched: Touched, arguments: Sequence[pa.Array]) -> pa.Array:
        versions = self._added(touched, arguments)
        count, sums = versions[:, 0], _carried(versions[:, 1:])
        try:
            return self._averages(sums, count) if self._mean else self._sums(sums, count)
        except Unanswerable:
            name = "avg" if self._mean else "sum"
            raise AggregateError(
                f"{name} overflows {self._result}", hint="Spark raises here too; cast to a wider type first"
            ) from None

    def take(self, touched: Touched, arguments: Sequence[pa.Array]) -> None:
        self._added(touched, arguments)

    def _added(self, touched: Touched, arguments: Sequence[pa.Array]) -> Ints:
        return running(self._groups, self._field, touched, self._pieces(plain(arguments[0])))

    def _pieces(self, array: pa.Array) -> Ints:
        valid = validity(array)
        values = np.empty((len(array), 1 + 2 * self._words), np.int64)
        values[:, 0] = 1
        if self._words == 2:
            wide = pa.decimal128(38, self._argument.scale)
            words = raw(array if pa.types.is_decimal128(array.type) else array.cast(wide), np.dtype((np.int64, 2)))
        else:
            words = raw(array.cast(pa.int64()), np.int64)[:, None]
        values[:, 1::2] = words & PIECE
        values[:, 2::2] = words >> 32
        values[:, 2:-1:2] &= PIECE  # only the highest piece has a sign
        if valid is not None:
            values[~valid] = 0
        return values

    def _sums(self, sums: Ints, count: Ints) -> pa.Array:
        """`sums`: pieces below 2**32 but for the highest, which has the sign."""
        if self._words == 1:
            if (sums[:, 1] >> 31 != sums[:, 1] >> 63).any():
                raise Unanswerable("bigint")
            total = (sums[:, 1] << 32) | sums[:, 0]
            return pa.array(total, mask=count == 0).cast(self._result)
        return to_arrow(self._result, _checked(sums, self._result.precision).view("V16").reshape(-1), count != 0)

    def _averages(self, sums: Ints, count: Ints) -> pa.Array:
        if self._words == 1:
            total = sums[:, 1].astype(np.float64) * 2.0**32 + sums[:, 0]
            with np.errstate(invalid="ignore", divide="ignore"):
                return pa.array(total / count, mask=count == 0).cast(self._result)
        up = 10 ** (self._result.scale - self._argument.scale)
        words = _checked(sums, 38)
        low = words[:, 0]
        if not ((words[:, 1] == low >> 63) & (np.abs(low) < (1 << 62) // up)).all():
            pairs = zip(_integers(sums, count), count.tolist(), strict=True)
            return from_unscaled((None if v is None else _half_up(v * up, n) for v, n in pairs), self._result)
        safe = np.maximum(count, 1)
        whole, left = np.divmod(np.abs(low) * up, safe)
        whole += 2 * left >= safe
        found = np.where(low < 0, -whole, whole)
        if (np.abs(found) >= 10 ** min(self._result.precision, 18)).any():
            raise Unanswerable("decimal")
        return to_arrow(self._result, np.stack([found, found >> 63], axis=1).view("V16").reshape(-1), count != 0)


def _carried(pieces: Ints) -> Ints:
    """The same sums with every piece but the highest in [0, 2**32)."""
    out = pieces.copy()
    for k in range(out.shape[1] - 1):
        out[:, k + 1] += out[:, k] >> 32
        out[:, k] &= PIECE
    return out


def _checked(sums: Ints, digits: int) -> Ints:
    """Four pieces as two words; raises where a sum has more digits."""
    low, high = sums[:, 0] | (sums[:, 1] << 32), sums[:, 2] | (sums[:, 3] << 32)
    unsigned, limit = low.view(np.uint64), 10**digits
    top, bottom = divmod(limit, 1 << 64), divmod(-limit, 1 << 64)
    fits = (sums[:, 3] >> 31 == sums[:, 3] >> 63) & (
        (high < top[0]) | ((high == top[0]) & (unsigned < np.uint64(top[1])))
    )
    fits &= (high > bottom[0]) | ((high == bottom[0]) & (unsigned > np.uint64(bottom[1])))
    if not fits.all():
        raise Unanswerable("decimal")
    return np.stack([low, high], axis=1)


def _integers(sums: Ints, count: Ints) -> list[Any]:
    rows = zip(sums.tolist(), count.tolist(), strict=True)
    return [None if n == 0 else sum(piece << 32 * k for k, piece in enumerate(pieces)) for pieces, n in rows]


def _half_up(number: int, divisor: int) -> int:
    whole, left = divmod(abs(number), divisor)
    whole += 2 * left >= divisor
    return whole if number >= 0 else -whole
