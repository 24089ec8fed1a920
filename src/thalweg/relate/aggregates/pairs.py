"""Pairs of a group and a value, with how often the value lives in the group: what min, max and DISTINCT keep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.relate.aggregates.contract import Touched
from thalweg.relate.rows.dictionary import Dictionary
from thalweg.state.keys import plain, validity

Ints = NDArray[np.int64]
COUNT = "count"


class Pairs:
    def __init__(self, arguments: Sequence[pa.DataType], *, grouping: bool = True) -> None:
        fields = [pa.field("group", pa.int64()), *(pa.field(str(k), t) for k, t in enumerate(arguments))]
        self.found = Dictionary(pa.schema(fields), grouping=grouping)
        self.found.add_field(COUNT)
        self.seen = np.empty(0, np.int64)
        """The pairs of the step."""

    def number(self, touched: Touched, arguments: Sequence[pa.Array], known: NDArray[np.bool_] | None = None) -> Ints:
        """The pair of each event; -1 where it is not `known`: by default, where an argument is NULL."""
        columns = [plain(a) for a in arguments]
        if known is None:
            known = np.ones(len(touched.entry), np.bool_)
            for column in columns:
                valid = validity(column)
                known &= True if valid is None else valid
        group = touched.group[touched.entry]
        out = np.full(len(group), -1, np.int64)
        if known.all():
            out = self.found.encode_columns([pa.array(group), *columns], len(group))
        else:
            which = pa.array(np.flatnonzero(known))
            some = [pa.array(group[known]), *(c.take(which) for c in columns)]
            out[known] = self.found.encode_columns(some, len(which))
        self.seen = out[out >= 0] if len(out) else self._of(touched.groups)
        self.found.touch(self.seen)
        return out

    def _of(self, groups: Ints) -> Ints:
        """All pairs of some groups. Groups are read without an event when they close."""
        numbers: Ints = self.found.numbers()
        if not len(groups) or not len(numbers):
            return numbers[:0]
        owners = self.found.words()[numbers, 0]
        closing = np.zeros(max(int(owners.max()), int(groups.max())) + 1, np.bool_)
        closing[groups] = True
        return np.asarray(numbers[closing[owners]])

    def values(self, numbers: Ints) -> pa.Array:
        """The value of each pair; NULL for -1."""
        known = numbers >= 0
        column = plain(self.found.rows(numbers[known]).column(1))
        if known.all():
            return column
        which = pa.array(np.maximum(np.cumsum(known) - 1, 0), mask=~known)
        return column.take(which) if len(column) else pa.nulls(len(numbers), column.type)

    def dropped(self, groups: Ints) -> Ints:
        """Pairs of the step whose groups were released though they live; they live no longer."""
        alive: Ints = self.seen[self.found.fields[COUNT][self.seen] > 0]
        if not len(groups) or not len(alive):
            return np.empty(0, np.int64)
        group = self.found.words()[alive, 0]
        mark = np.zeros(max(int(groups.max()), int(group.max())) + 1, np.bool_)
        mark[groups] = True
        alive = alive[mark[group]]
        self.found.fields[COUNT][alive] = 0
        return alive

    def settle(self, more: Ints | None = None, needed: Ints | None = None) -> None:
        """Forget the pairs of the step, and `more`, that do not live; `needed` is not zero for those to keep."""
        seen, self.seen = self.seen, np.empty(0, np.int64)
        seen = seen if more is None else np.concatenate([seen, more])
        gone = self.found.fields[COUNT][seen] == 0
        if needed is not None:
            gone &= needed[seen] == 0
        self.found.release(seen[gone])

    def size(self) -> int:
        return len(self.found)

    @property
    def nbytes(self) -> int:
        return self.found.nbytes

    def snapshot(self) -> dict[str, bytes]:
        return self.found.snapshot()

    def restore(self, parts: Mapping[str, bytes]) -> None:
        self.found.restore(parts)
