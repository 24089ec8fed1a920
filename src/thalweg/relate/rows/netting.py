"""Netting: what changes of equal rows at one instant come to, and changes without those that cancel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.contract.relation import Changes
from thalweg.relate.kernels.net import net_events
from thalweg.relate.rows.dictionary import Dictionary

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Netted:
    """Entries, in the order of their times: one for each row and instant."""

    entry: Ints
    """Of each event, its entry."""
    first: Ints
    """Of each entry, its first event; then its row's number, its net sign, its time."""
    number: Ints
    net: Ints
    time: Ints


def netted(numbers: Ints, time: Ints, sign: Ints, place: Ints) -> Netted:
    entry, first, number, net = (np.empty(len(numbers), np.int64) for _ in range(4))
    time, sign = np.ascontiguousarray(time), np.ascontiguousarray(sign)
    count = net_events(numbers, time, sign, place, entry, first, number, net)
    return Netted(entry, first[:count], number[:count], net[:count], time[first[:count]])


def net_changes(rows: Dictionary, numbers: Ints, time: Ints, sign: Ints) -> Changes:
    """What changes of rows, by number, come to at each instant: what leaves goes before what enters."""
    found = netted(numbers, time, sign, rows.place)
    left = np.flatnonzero(found.net)
    left = left[np.lexsort((found.net[left] > 0, found.time[left]))]
    return Changes(rows.rows(found.number[left]), found.net[left], found.time[left])


def nothing(schema: pa.Schema) -> Changes:
    return Changes(schema.empty_table(), np.empty(0, np.int64), np.empty(0, np.int64))


def taken(rows: pa.Table, which: Ints) -> pa.Table:
    """Some rows; also of a table without columns, which Arrow would take to have none."""
    if rows.num_columns:
        return rows.take(pa.array(which))
    return pa.table({"": pa.nulls(len(which))}).select([])


def selected(changes: Changes, which: Ints, sign: Ints | None = None) -> Changes:
    return Changes(taken(changes.rows, which), changes.sign[which] if sign is None else sign, changes.time[which])


def cancelled(changes: Changes) -> Changes:
    """Without changes that cancel. Where rows both enter and leave, each row has one change at that instant."""
    which = np.flatnonzero(_mixed(changes.sign, changes.time))
    if not len(which):
        return changes
    rows = Dictionary(changes.rows.schema)
    numbers = rows.encode_columns(taken(changes.rows, which).columns, len(which))
    found = netted(numbers, changes.time[which], changes.sign[which], rows.place)
    sign = changes.sign.copy()
    sign[which] = 0
    sign[which[found.first]] = found.net
    left = np.flatnonzero(sign)
    return selected(changes, left, sign[left])


def _mixed(sign: Ints, time: Ints) -> NDArray[np.bool_]:
    """The events of instants at which rows both enter and leave."""
    if (sign > 0).all() or (sign < 0).all():
        return np.zeros(len(sign), np.bool_)
    starts = np.flatnonzero(np.r_[True, time[1:] != time[:-1]])
    mixed = (np.maximum.reduceat(sign, starts) > 0) & (np.minimum.reduceat(sign, starts) < 0)
    return np.repeat(mixed, np.diff(np.r_[starts, len(sign)]))


def merged(inputs: Sequence[Ints]) -> Ints:
    """The order of the concatenation of several ordered arrays of times; ties keep the order of the arrays."""
    return np.argsort(np.concatenate(inputs), kind="stable")
