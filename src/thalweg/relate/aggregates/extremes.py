"""min and max under removals: every value of a group with its count, and a heap that knows the least or the greatest.

A value that no longer lives is left in its heap until it comes to the top; once more are left than live, all heaps are
built again. So a step costs its changes times a logarithm, and what is kept is at most twice what lives. Where rows only
come, one value of a group is enough (`Peak`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from thalweg.errors import DefinitionError
from thalweg.relate.aggregates.contract import Accumulator, Ints, Touched
from thalweg.relate.aggregates.pairs import COUNT, Pairs
from thalweg.relate.kernels.extremes import DOUBLE, ONE, OUT, TEXT, TWO, build_heaps, follow_tops

INSIDE, LEFT, RIGHT, KNOWN = "inside", "left", "right", "known"
KINDS = {"fixed": ONE, "flag": ONE, "short": ONE, "float": DOUBLE, "wide": TWO, "text": TEXT}
FEW = 64
"""Dead values that are never worth building heaps again; any small number will do."""


class Extreme(Accumulator):
    def __init__(self, argument: pa.DataType, result: pa.DataType, least: bool) -> None:
        self._result, self._least = result, least
        self._pairs = Pairs([argument])
        for name, default in ((INSIDE, OUT), (LEFT, -1), (RIGHT, -1), (KNOWN, 0)):
            self._pairs.found.add_field(name, default, kept=False)
        part = self._pairs.found.layout.parts[1]
        if part.kind not in KINDS or (part.kind == "wide" and part.type.bit_width != 128):
            raise DefinitionError(
                f"there is no {'min' if least else 'max'} of {argument}", hint="take it of a number, a text or a time"
            )
        self._kind, self._word = KINDS[part.kind], part.word
        self._root = np.full(0, -1, np.int64)
        """By group: the pair at the top of its heap."""
        self._dead = np.zeros(1, np.int64)
        self._left_heaps = np.empty(0, np.int64)

    def step(self, touched: Touched, arguments: Sequence[pa.Array]) -> pa.Array:
        pair = self._pairs.number(touched, arguments)
        self._grow(int(touched.groups.max(initial=-1)) + 1)
        tops = np.empty(touched.versions, np.int64)
        groups = len(touched.groups)
        tops[:groups] = self._root[touched.groups]
        order = np.argsort(touched.entry, kind="stable")
        begin = np.searchsorted(touched.entry[order], np.arange(len(touched.old) + 1))
        found, after = self._pairs.found, tops[groups:]
        fields, room = found.fields, np.empty((2, len(found) + 1), np.int64)
        count = follow_tops(
            order, begin, pair, touched.sign, touched.group, after, fields[COUNT], fields[INSIDE], self._dead,
            self._root, fields[LEFT], fields[RIGHT], room[0], room[1], fields[KNOWN], *self._compared(),
        )  # fmt: skip
        self._left_heaps = room[1, :count].copy()
        return self._pairs.values(tops).cast(self._result)

    def _compared(self) -> tuple[Any, ...]:
        """How kernels compare pairs."""
        found = self._pairs.found
        return self._kind, self._least, found.words(), self._word, *found.texts().data()

    def _grow(self, groups: int) -> None:
        if groups > len(self._root):
            more = np.full(max(groups, 2 * len(self._root)) - len(self._root), -1, np.int64)
            self._root = np.concatenate([self._root, more])

    def settle(self, groups: Ints) -> None:
        fields = self._pairs.found.fields
        dropped = self._pairs.dropped(groups)
        if len(dropped):  # of groups that are final
            fields[INSIDE][dropped] = OUT
            self._root[groups] = -1
        self._pairs.settle(self._left_heaps, fields[INSIDE])
        self._left_heaps = np.empty(0, np.int64)
        if self._dead[0] > max(FEW, self.size()):
            self._build()

    def _build(self) -> None:
        """All heaps again, without the dead."""
        found = self._pairs.found
        numbers = found.numbers()
        alive = found.fields[COUNT][numbers] > 0
        found.release(numbers[~alive])
        self._dead[0] = 0
        self._root[:] = -1
        living, fields = numbers[alive], found.fields
        self._grow(int(found.words()[living, 0].max(initial=-1)) + 1)
        path = np.empty(len(found) + 1, np.int64)
        build_heaps(living, fields[INSIDE], self._root, fields[LEFT], fields[RIGHT], path, *self._compared())

    def size(self) -> int:
        return self._pairs.size() - int(self._dead[0])

    @property
    def nbytes(self) -> int:
        return self._pairs.nbytes + self._root.nbytes

    def snapshot(self) -> dict[str, bytes]:
        return self._pairs.snapshot()

    def restore(self, parts: Mapping[str, bytes]) -> None:
        self._pairs.restore(parts)
        self._build()


class Peak(Extreme):
    """min and max of groups that only grow. What is below the top never gets there again, so it is forgotten."""

    def __init__(self, argument: pa.DataType, result: pa.DataType, least: bool) -> None:
        super().__init__(argument, result, least)
        self._before = np.empty(0, np.int64)
        """The tops before the step."""

    def step(self, touched: Touched, arguments: Sequence[pa.Array]) -> pa.Array:
        self._grow(int(touched.groups.max(initial=-1)) + 1)
        before = self._root[touched.groups]
        self._before = before[before >= 0]
        return super().step(touched, arguments)

    def settle(self, groups: Ints) -> None:
        found = self._pairs.found
        pairs = np.concatenate([self._pairs.seen, self._before])
        tops = self._root[found.words()[pairs, 0]]
        found.fields[LEFT][tops] = -1
        found.fields[RIGHT][tops] = -1
        below = pairs[pairs != tops]
        found.fields[COUNT][below] = 0
        found.fields[INSIDE][below] = OUT
        self._left_heaps, self._before = below, np.empty(0, np.int64)
        super().settle(groups)
