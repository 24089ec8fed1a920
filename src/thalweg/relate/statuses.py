"""Whether rows have a partner: true, false, or (IN and NOT IN) unknown, and how that changes over time."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.contract.relation import Changes
from thalweg.relate.kernels.matching import (
    ENTRY,
    FALSE,
    LEFT_AFTER,
    LEFT_BEFORE,
    OF_MATCHES,
    OF_ROW,
    OF_UNKNOWNS,
    RIGHT_AFTER,
    RIGHT_BEFORE,
    TRUE,
    UNKNOWN,
    find_statuses,
    link_all,
)
from thalweg.relate.rows.dictionary import Dictionary
from thalweg.relate.rows.netting import Netted, merged, netted

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
ALIVE, MATCHES, UNKNOWNS = "alive", "matches", "unknowns"
COUNT, LINKED = "count", "linked"
NONE = np.empty(0, np.int64)


class Partners:
    """Counts, for each row of one side, the pairs that match it."""

    def __init__(self, rows: Dictionary) -> None:
        self._rows = rows
        for name in (ALIVE, MATCHES, UNKNOWNS):
            rows.add_field(name)
        self._own = np.empty(0, np.int64)

    def step(self, entries: Netted, side: int, pairs: Ints, times: Ints, yes: Mask, unknown: Mask) -> tuple[Ints, Ints]:
        """Columns row, status and change, and the times of the changes."""
        mine, other = (LEFT_BEFORE, RIGHT_BEFORE) if side == 0 else (RIGHT_BEFORE, LEFT_BEFORE)
        mine2, other2 = (LEFT_AFTER, RIGHT_AFTER) if side == 0 else (RIGHT_AFTER, LEFT_AFTER)
        more = pairs[:, other2] * (pairs[:, mine2] > 0) - pairs[:, other] * (pairs[:, mine] > 0)
        target, time = np.ascontiguousarray(pairs[:, side]), times[pairs[:, ENTRY]]
        found = [netted(target[m], time[m], more[m], self._rows.place) for m in (yes, unknown)]
        events = [(OF_ROW, entries), (OF_MATCHES, found[0]), (OF_UNKNOWNS, found[1])]
        for _, entry in events:
            self._rows.touch(entry.number)
        kind, target, net, time = in_order(events)
        if len(self._own) != self._rows.capacity:
            self._own = np.arange(self._rows.capacity)
        fields = self._rows.fields
        out = find_statuses(
            kind, target, net, time, np.zeros(1, np.int64), True, fields[ALIVE], NONE, self._rows.place, self._own,
            NONE, NONE, NONE, fields[MATCHES], self._own, NONE, NONE, NONE, fields[UNKNOWNS],
        )  # fmt: skip
        return out, time[out[:, 3]]


def in_order(events: list[tuple[int, Netted]]) -> tuple[Ints, Ints, Ints, Ints]:
    """Entries of several kinds in the order of their times: kind, target, net, time."""
    order = merged([entry.time for _, entry in events])
    kind = np.repeat([k for k, _ in events], [len(entry.net) for _, entry in events])[order]
    target, net, time = (
        np.concatenate([getattr(entry, name) for _, entry in events])[order] for name in ("number", "net", "time")
    )
    return kind, target, net, time


def with_status(
    kind: str, rows: Dictionary, row: Ints, status: Ints, net: Ints, time: Ints, schema: pa.Schema
) -> Changes:
    """Changes of a semi, anti or mark match."""
    if kind == "mark":
        mark = pa.array(status == TRUE, mask=status == UNKNOWN)
        return Changes(pa.Table.from_arrays([*rows.rows(row).columns, mark], schema=schema), net, time)
    which = np.flatnonzero(status == (TRUE if kind == "semi" else FALSE))
    return Changes(pa.Table.from_arrays(rows.rows(row[which]).columns, schema=schema), net[which], time[which])


def relink(rows: Dictionary, key: str, head: Ints, next_: str, prev: str) -> None:
    """Make the chains of living rows again."""
    alive = np.flatnonzero(rows.fields[COUNT] > 0)
    alive = alive[np.argsort(rows.fields[LINKED][alive], kind="stable")]
    link_all(alive, rows.fields[key], head, rows.fields[next_], rows.fields[prev])
