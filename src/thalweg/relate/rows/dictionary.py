"""Rows under numbers: equal rows have one number, and the number of a row that was released is used again.

A dictionary keeps the rows themselves, as words, and beside them named fields: arrays with a place for each number,
which grow, are cleared and are written with the rows. Invariant: a step's cost follows its rows, not the rows kept.
The order of numbers means nothing: it may differ after a restore.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.relate.kernels.table import hash_rows, index_rows, intern_rows, remove_rows
from thalweg.relate.rows.parts import NUMBER, Blocks, below, under
from thalweg.relate.rows.texts import Texts
from thalweg.relate.rows.words import Layout

Ints = NDArray[np.int64]
SMALL = 16
"""Places at the beginning; any small number will do."""


class Dictionary:
    """The rows of a schema.

    >>> d = Dictionary(pa.schema([("k", pa.string())]))
    >>> numbers = d.encode(pa.table({"k": ["x", None, "x"]}))
    >>> bool(numbers[0] == numbers[2]), len(d), d.rows(numbers)["k"].to_pylist()
    (True, 2, ['x', None, 'x'])
    >>> d.release(numbers)
    >>> len(d)
    0
    """

    def __init__(self, schema: pa.Schema, *, grouping: bool = True) -> None:
        self.schema = schema
        self.layout = Layout(schema, grouping)
        self.fields: dict[str, NDArray[Any]] = {}
        """By name: a value, or a row of values, for each number."""
        self.place = np.empty(0, np.int64)
        """Room for kernels, one value a number; it holds nothing between calls."""
        self._defaults: dict[str, Any] = {}
        self._kept: list[str] = []
        self._texts = Texts()
        self._words = np.empty((0, self.layout.width), np.int64)
        self._hashes = np.empty(0, np.int64)
        self._table = np.zeros(SMALL, np.int64)
        self._free = np.empty(0, np.int64)
        self._top = 0
        self._blocks = Blocks()

    def __len__(self) -> int:
        return len(self._free) - self._top

    @property
    def capacity(self) -> int:
        return len(self._free)

    @property
    def nbytes(self) -> int:
        arrays = (self._words, self._hashes, self._table, self._free, self.place, *self.fields.values())
        return self._texts.nbytes + sum(a.nbytes for a in arrays)

    def add_field(
        self, name: str, default: Any = 0, dtype: Any = np.int64, width: int | None = None, *, kept: bool = True
    ) -> None:
        """`kept`: whether snapshots have it. What is not kept must follow from what is."""
        shape = (self.capacity,) if width is None else (self.capacity, width)
        self.fields[name] = np.full(shape, default, dtype)
        self._defaults[name] = default
        if kept:
            self._kept.append(name)

    def widen_field(self, name: str, width: int) -> None:
        """More values in each row of a field; the new ones have its default."""
        before = self.fields[name]
        self.fields[name] = np.full((self.capacity, width), self._defaults[name], before.dtype)
        self.fields[name][:, : before.shape[1]] = before
        self._blocks.touch(self.numbers())

    # Rows in and out

    def encode(self, rows: pa.Table) -> Ints:
        """The number of each row; rows that are not there yet are added."""
        return self.encode_columns(rows.columns, rows.num_rows)

    def encode_columns(self, columns: list[Any], rows: int) -> Ints:
        words = self.layout.encode(columns, rows, self._texts)
        hashes = hash_rows(words)
        self._reserve(rows)
        numbers = np.empty(rows, np.int64)
        before = self._top
        self._top = intern_rows(
            words, hashes, self._words, self._hashes, self._table, self._free, before, numbers
        )  # fmt: skip
        fresh = self._free[self._top : before]
        self._blocks.touch(fresh)
        if len(self.layout.texts):
            self._texts.hold(self._text_numbers(self._words[fresh]))
            self._texts.settle(self._text_numbers(words))
        return numbers

    def _text_numbers(self, words: Ints) -> Ints:
        return np.ascontiguousarray(words[:, self.layout.texts]).reshape(-1) - 1

    def rows(self, numbers: Ints) -> pa.Table:
        return self.layout.decode(self._words[numbers], self._texts)

    def words(self) -> Ints:
        """The words of all numbers, for kernels; read only."""
        return self._words

    def texts(self) -> Texts:
        return self._texts

    def touch(self, numbers: Ints) -> None:
        """Say that fields of these changed."""
        self._blocks.touch(numbers)

    def release(self, numbers: Ints) -> None:
        """Forget rows; a number may come several times."""
        if not len(numbers):
            return
        self.place[numbers] = np.arange(len(numbers))
        numbers = numbers[self.place[numbers] == np.arange(len(numbers))]
        self._blocks.touch(numbers)
        self._top = remove_rows(numbers, self._hashes, self._table, self._free, self._top)
        if len(self.layout.texts):
            self._texts.drop(self._text_numbers(self._words[numbers]))
        for name, default in self._defaults.items():
            self.fields[name][numbers] = default

    def numbers(self) -> Ints:
        """All that live, in order."""
        alive = np.ones(self.capacity, np.bool_)
        alive[self._free[: self._top]] = False
        return np.flatnonzero(alive)

    def _reserve(self, rows: int) -> None:
        if rows > self._top:
            before = self.capacity
            capacity = max(2 * before, len(self) + rows, SMALL)
            self._resize(capacity)
            fresh = np.arange(capacity - 1, before - 1, -1)
            free = np.empty(capacity, np.int64)
            free[: len(fresh)], free[len(fresh) : len(fresh) + self._top] = fresh, self._free[: self._top]
            self._free, self._top = free, len(fresh) + self._top
        if 2 * (len(self) + rows) > len(self._table):
            living = self.numbers()
            self._table = np.zeros(1 << (4 * (len(self) + rows)).bit_length(), np.int64)
            index_rows(living, self._hashes, self._table)

    def _resize(self, capacity: int) -> None:
        more = capacity - len(self._hashes)
        self._words = np.concatenate([self._words, np.empty((more, self.layout.width), np.int64)])
        self._hashes = np.concatenate([self._hashes, np.empty(more, np.int64)])
        self.place = np.zeros(capacity, np.int64)
        for name, array in self.fields.items():
            fresh = np.full((more, *array.shape[1:]), self._defaults[name], array.dtype)
            self.fields[name] = np.concatenate([array, fresh])

    # As bytes

    def snapshot(self) -> dict[str, bytes]:
        def table(numbers: Ints) -> dict[str, Any]:
            words = {f"word.{k}": self._words[numbers, k] for k in range(self.layout.width)}
            fields: dict[str, Any] = {}
            for at, name in enumerate(self._kept):
                flat = self.fields[name][numbers].reshape(len(numbers), -1)
                fields |= {f"field.{at}.{k}": flat[:, k] for k in range(flat.shape[1])}
            return {name: pa.array(np.ascontiguousarray(a)) for name, a in (words | fields).items()}

        blocks = self._blocks.snapshot(self.numbers(), table)
        return {**under("rows", blocks), **under("texts", self._texts.snapshot())}

    def restore(self, parts: Mapping[str, bytes]) -> None:
        self._texts.restore(below("texts", parts))
        numbers, columns = Blocks.read(below("rows", parts))
        capacity = int(numbers.max()) + 1 if len(numbers) else 0
        self._words, self._hashes = np.empty((0, self.layout.width), np.int64), np.empty(0, np.int64)
        for name, array in self.fields.items():
            stored = f"field.{self._kept.index(name)}." if name in self._kept else NUMBER
            width = sum(c.startswith(stored) for c in columns) or array.shape[-1]
            self.fields[name] = np.empty((0,) if array.ndim == 1 else (0, width), array.dtype)
        self._resize(capacity)
        for k in range(self.layout.width if len(numbers) else 0):
            self._words[numbers, k] = columns[f"word.{k}"].to_numpy()
        for at, name in enumerate(self._kept if capacity else ()):
            flat = self.fields[name].reshape(capacity, -1)
            for k in range(flat.shape[1]):
                flat[numbers, k] = columns[f"field.{at}.{k}"].to_numpy()
        self._hashes[numbers] = hash_rows(self._words[numbers])
        alive = np.zeros(capacity, np.bool_)
        alive[numbers] = True
        unused = np.flatnonzero(~alive)
        self._free = np.empty(capacity, np.int64)
        self._free[: len(unused)], self._top = unused, len(unused)
        self._table = np.zeros(1 << max(4, (4 * capacity).bit_length()), np.int64)
        index_rows(numbers, self._hashes, self._table)
        self._blocks = Blocks()
