"""DISTINCT inside any aggregate: a value counts once for its group, from the first equal one to the last.

approx_count_distinct is count(DISTINCT) here. A sketch that can forget rows needs a counter in every register, which
takes more room than exact counts for what a window usually holds; and the exact count is within any error asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from thalweg.relate.aggregates.contract import Accumulator, Ints, Touched
from thalweg.relate.aggregates.pairs import COUNT, Pairs
from thalweg.relate.kernels.bags import DISTINCT, apply_entries
from thalweg.relate.rows.netting import netted
from thalweg.relate.rows.parts import below, under
from thalweg.state.keys import plain

NOTHING = "nothing"


class Once(Accumulator):
    """Hands on only the first and the last of equal values."""

    def __init__(self, arguments: Sequence[pa.DataType], inner: Accumulator) -> None:
        self._inner = inner
        self._pairs = Pairs(arguments)
        self._pairs.found.add_field(NOTHING, kept=False)

    def step(self, touched: Touched, arguments: Sequence[pa.Array]) -> pa.Array:
        return self._inner.step(*self._once(touched, arguments))

    def take(self, touched: Touched, arguments: Sequence[pa.Array]) -> None:
        self._inner.take(*self._once(touched, arguments))

    def _once(self, touched: Touched, arguments: Sequence[pa.Array]) -> tuple[Touched, list[pa.Array]]:
        """The events that count, and their arguments."""
        pair = self._pairs.number(touched, arguments)
        order = np.argsort(touched.entry, kind="stable")
        order = order[pair[order] >= 0]
        found = netted(pair[order], touched.entry[order], touched.sign[order], self._pairs.found.place)
        fields = self._pairs.found.fields
        sign = np.empty(len(found.net), np.int64)
        nothing = np.zeros(len(found.net), np.int64)
        apply_entries(DISTINCT, found.number, found.net, nothing, fields[COUNT], fields[NOTHING], sign)
        changed = np.flatnonzero(sign)
        event = order[found.first[changed]]
        which = pa.array(event)
        once = Touched(touched.entry[event], sign[changed], touched.groups, touched.group, touched.old, touched.last)
        return once, [plain(a).take(which) for a in arguments]

    def settle(self, groups: Ints) -> None:
        self._pairs.dropped(groups)
        self._pairs.settle()
        self._inner.settle(groups)

    def size(self) -> int:
        return self._pairs.size() + self._inner.size()

    @property
    def nbytes(self) -> int:
        return self._pairs.nbytes + self._inner.nbytes

    def snapshot(self) -> dict[str, bytes]:
        return under("pairs", self._pairs.snapshot()) | under("inner", self._inner.snapshot())

    def restore(self, parts: Mapping[str, bytes]) -> None:
        self._pairs.restore(below("pairs", parts))
        self._inner.restore(below("inner", parts))
