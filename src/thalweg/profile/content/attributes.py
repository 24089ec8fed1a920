"""Attributes: the columns of an input that may tell classes of tuples apart, as numbers to compare and count.

Numbers, dates and booleans become float32; short strings become a code (a hash, exact in float32). Left out are columns
that rise or fall with the stream (timestamps, sequences, even with late tuples), long strings, and strings of large
domains: content-based routing 4.4. Samples in stream order decide that, and later samples may revise it.
"""

from __future__ import annotations

from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from thalweg.profile.rates.given import ENOUGH

Values = NDArray[np.float32]

LENGTHY = 32
"""Tested: longest mean length of strings to use; longer ones are slow to hash and hardly repeat (content-based routing
4.4)."""
LARGEST = 0.5
"""Statistic: distinct share of a sample above which a string column counts as a large domain."""
TREND = 0.9
"""Statistic: correlation with stream position above which a column rises or falls with the stream."""


class Attributes:
    """Facts about the columns; none before the first `look`.

    >>> a = Attributes()
    >>> rows = pa.record_batch({"ts": range(100), "kind": ["a", "b"] * 50, "load": [1.5, 0.5] * 50, "raw": [b"x"] * 100})
    >>> values = a.look(rows)
    >>> a.names, a.usable.tolist()
    (['ts', 'kind', 'load'], [False, True, True])
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self.category: list[bool] = []
        self.whole: list[bool] = []
        """Whether an attribute has whole numbers only."""
        self._risen: list[int] = []
        self._fallen: list[int] = []
        self._mixed: list[int] = []
        self._large: list[bool] = []
        self._words: list[dict[float, str]] = []
        self._looks = 0

    def __len__(self) -> int:
        return len(self.names)

    @property
    def usable(self) -> NDArray[np.bool_]:
        ordered = [
            m == 0 and (r > 0) != (f > 0) for r, f, m in zip(self._risen, self._fallen, self._mixed, strict=True)
        ]
        return ~(np.array(ordered, np.bool_) | np.array(self._large, np.bool_))

    def known(self, batch: pa.RecordBatch) -> bool:
        """Whether these are the columns that were looked at."""
        return bool(self.names) and set(self.names) <= set(batch.schema.names)

    def look(self, sample: pa.RecordBatch) -> Values:
        """Learn from a sample in stream order; returns its values, a column for each attribute."""
        if not self.names:
            for field in sample.schema:
                if _is_text(field.type) or _is_number(field.type):
                    self.names.append(field.name)
                    self.category.append(_is_text(field.type))
                    self.whole.append(bool(pa.types.is_integer(field.type)))
            for counts in (self._risen, self._fallen, self._mixed):
                counts.extend([0] * len(self.names))
            self._large = [False] * len(self.names)
            self._words = [{} for _ in self.names]
        values = self.values(sample)
        if len(values) < 2 * ENOUGH:  # too few to judge a column's order or domain
            return values
        self._looks += 1
        # Columns seldom change character, so we look at them ever more rarely.
        if self._looks & (self._looks - 1) == 0:
            for j, name in enumerate(self.names):
                if self.category[j]:
                    self._large[j] = _is_large(sample.column(name))
                    self._remember(j, sample.column(name))
                else:
                    self._note_order(j, _numbers(sample.column(name)))
        return values

    def _note_order(self, j: int, column: NDArray[np.float64]) -> None:
        # Not in float32, which can't resolve the steps of timestamps.
        column = column[np.isfinite(column)]
        rises, falls = int((column[1:] > column[:-1]).sum()), int((column[1:] < column[:-1]).sum())
        column = column / max(np.abs(column).max(initial=0.0), 1.0)  # or squares of large numbers overflow
        trend = float(np.corrcoef(column, np.arange(len(column)))[0, 1]) if rises > 2 and falls > 2 else 0.0
        if trend > TREND or (rises > 2 and not falls):
            self._risen[j] += 1
        elif trend < -TREND or (falls > 2 and not rises):
            self._fallen[j] += 1
        elif rises > 2 and falls > 2:
            self._mixed[j] += 1

    def values(self, batch: pa.RecordBatch) -> Values:
        out = np.empty((batch.num_rows, len(self.names)), np.float32)
        for j in range(len(self.names)):
            out[:, j] = self.column(batch, j)
        return out

    def lines(self, batch: pa.RecordBatch, wanted: list[int]) -> Values:
        """Some attributes of a batch, a line for each."""
        out = np.empty((len(wanted), batch.num_rows), np.float32)
        for k, j in enumerate(wanted):
            out[k] = self.column(batch, j)
        return out

    def column(self, batch: pa.RecordBatch, j: int) -> Values:
        """One attribute of a batch; NaN where it is null, infinite beyond float32."""
        array = batch.column(self.names[j])
        if self.category[j]:
            return _codes(array)
        with np.errstate(over="ignore"):
            return _numbers(array).astype(np.float32)

    def word(self, j: int, value: float) -> str:
        """A value as text."""
        return self._words[j].get(value, "?") if self.category[j] else f"{value:g}"

    def words(self, j: int) -> dict[float, str]:
        """Strings of an attribute by code; only the first few dozen."""
        return self._words[j]

    def _remember(self, j: int, array: pa.Array) -> None:
        if len(self._words[j]) < 64:
            for text in pc.unique(array).to_pylist():
                if text is not None:
                    self._words[j].setdefault(_code(text), text)

    def snapshot(self) -> dict[str, Any]:
        return {
            "names": list(self.names), "category": list(self.category), "whole": list(self.whole),
            "risen": list(self._risen), "fallen": list(self._fallen), "mixed": list(self._mixed), "large": list(self._large),
            "words": [[[k, v] for k, v in words.items()] for words in self._words], "looks": self._looks,
        }  # fmt: skip

    def restore(self, record: dict[str, Any]) -> None:
        self.names, self.category = list(record["names"]), list(record["category"])
        self.whole = list(record["whole"])
        self._risen, self._fallen = list(record["risen"]), list(record["fallen"])
        self._mixed, self._large = list(record["mixed"]), list(record["large"])
        self._looks = int(record["looks"])
        self._words = [{float(k): str(v) for k, v in words} for words in record["words"]]


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_number(kind: pa.DataType) -> bool:
    t = pa.types
    return bool(
        t.is_integer(kind) or t.is_floating(kind) or t.is_boolean(kind) or t.is_date(kind) or t.is_timestamp(kind)
    )


def _is_large(array: pa.Array) -> bool:
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    filled = len(array) - array.null_count
    if not filled:
        return False
    mean = pc.mean(pc.utf8_length(array)).as_py()
    return bool(mean > LENGTHY or pc.count_distinct(array).as_py() > max(LARGEST * filled, 2 * ENOUGH))


def _numbers(array: pa.Array) -> NDArray[np.float64]:
    kind = array.type
    if pa.types.is_timestamp(kind) or pa.types.is_date64(kind):
        array = array.cast(pa.int64())
    elif pa.types.is_date32(kind):
        array = array.cast(pa.int32())
    elif pa.types.is_boolean(kind):
        array = array.cast(pa.uint8())
    if array.null_count:
        array = array.cast(pa.float64(), safe=False)
    return np.asarray(array.to_numpy(zero_copy_only=False), np.float64)


def _codes(array: pa.Array) -> Values:
    encoded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    codes = np.array([np.nan if v is None else _code(v) for v in encoded.dictionary.to_pylist()] + [np.nan], np.float32)
    places = encoded.indices.fill_null(len(codes) - 1) if encoded.null_count else encoded.indices
    at = np.asarray(places.to_numpy(zero_copy_only=False), np.int64)
    return np.asarray(codes[at])


def _code(text: str) -> float:
    """A hash that float32 holds exactly."""
    return float(crc32(text.encode()) & 0xFFFFFF)
