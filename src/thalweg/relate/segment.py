"""Rows with their lifetimes, in sorted segments that are found by key.

New rows form a segment of their own; segments of similar size are merged, so a row is sorted a number of times that is
logarithmic in the rows kept, and a probe looks into as many segments (the log-structured merge tree of O'Neil et al.).
Keys are coded as in `state/keys.py`; rows with a NULL among their keys come after all others and equal nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.contract.relation import FOREVER, Closings, Deltas, Ints
from thalweg.state.keys import KeyCoder

Mask = NDArray[np.bool_]
FACTOR = np.int64(-7046029254386353131)
"""An odd constant near 2^64 / φ: multiplying by it spreads codes (Knuth 6.4)."""
PAIRS = 1 << 16
"""Most candidate pairs that are compared at once."""


@dataclass(eq=False)
class Segment:
    """Rows in the order of their code. `keyed` of them have no NULL among their keys; they come first."""

    rows: pa.RecordBatch
    number: Ints
    start: Ints
    end: Ints
    time: Ints
    code: Ints
    keys: tuple[Ints, ...]
    """A code for each key column."""
    valid: tuple[Mask, ...]
    """Of each key column: which rows are not NULL."""
    keyed: int
    met: Mask
    """Whether a partner came."""
    unsure: Mask
    """Whether a row came that may be a partner, as NULL compares."""
    first: Ints
    """The earliest time of a combination with a partner so far."""

    def __len__(self) -> int:
        return len(self.number)

    def take(self, which: Ints, keyed: int | None = None) -> Segment:
        """Some rows, by ascending place; in another order, say how many of them have keys."""
        return Segment(
            self.rows.take(pa.array(which)), self.number[which], self.start[which], self.end[which], self.time[which],
            self.code[which], tuple(k[which] for k in self.keys), tuple(v[which] for v in self.valid),
            int(np.searchsorted(which, self.keyed)) if keyed is None else keyed, self.met[which], self.unsure[which],
            self.first[which],
        )  # fmt: skip


@dataclass(eq=False)
class Kept:
    """The rows of one side of a join of histories."""

    schema: pa.Schema
    columns: Sequence[str]
    """The key columns."""
    coders: Sequence[KeyCoder]
    segments: list[Segment] = field(default_factory=list)

    def __len__(self) -> int:
        return sum(map(len, self.segments))

    def __iter__(self) -> Iterator[Segment]:
        return iter(self.segments)

    def segment(self, deltas: Deltas) -> Segment:
        """New rows, sorted. They are not kept yet."""
        count = len(deltas.number)
        keys, valid = [], []
        for name, coder in zip(self.columns, self.coders, strict=True):
            codes, mask = coder.code(deltas.rows.column(name))
            keys.append(codes)
            valid.append(np.ones(count, np.bool_) if mask is None else mask)
        known = np.logical_and.reduce(valid) if valid else np.ones(count, np.bool_)
        code = mixed(keys, count)
        whole = Segment(
            deltas.rows, deltas.number, deltas.start, deltas.end, deltas.time, code, tuple(keys), tuple(valid), 0,
            np.zeros(count, np.bool_), np.zeros(count, np.bool_), np.full(count, FOREVER),
        )  # fmt: skip
        return whole.take(np.lexsort((code, ~known)), int(known.sum()))

    def keep(self, segment: Segment) -> None:
        """Keep rows; merge segments so that each is at least twice as long as the next."""
        if not len(segment):
            return
        self.segments.append(segment)
        while len(self.segments) > 1 and len(self.segments[-2]) < 2 * len(self.segments[-1]):
            last, before = self.segments.pop(), self.segments.pop()
            self.segments.append(_merged(before, last))

    def close(self, closings: Closings) -> None:
        """Take note of ends."""
        if not len(closings.number):
            return
        order = np.argsort(closings.number)
        numbers, ends = closings.number[order], closings.end[order]
        for segment in self.segments:
            at = np.minimum(np.searchsorted(numbers, segment.number), len(numbers) - 1)
            hit = numbers[at] == segment.number
            segment.end[hit] = ends[at[hit]]

    def release(self, done: Sequence[Mask]) -> list[Segment]:
        """Take out the rows that are marked, by segment; those of every segment are returned."""
        gone, kept = [], []
        for segment, mask in zip(self.segments, done, strict=True):
            if mask.any():
                gone.append(segment.take(np.flatnonzero(mask)))
                segment = segment.take(np.flatnonzero(~mask))
            if len(segment):
                kept.append(segment)
        self.segments = kept
        return gone


def mixed(keys: Sequence[Ints], count: int) -> Ints:
    """One code for several: equal keys have equal codes."""
    if len(keys) == 1:
        return keys[0]
    code = np.zeros(count, np.int64)
    for key in keys:
        code = (code ^ key) * FACTOR
        code ^= code >> np.int64(32)
    return code


def _merged(a: Segment, b: Segment) -> Segment:
    batches = pa.Table.from_batches([a.rows, b.rows]).combine_chunks().to_batches()

    def both(name: str) -> Any:
        return np.concatenate([getattr(a, name), getattr(b, name)])

    whole = Segment(
        batches[0] if batches else a.rows, both("number"), both("start"), both("end"), both("time"), both("code"),
        tuple(np.concatenate(pair) for pair in zip(a.keys, b.keys, strict=True)),
        tuple(np.concatenate(pair) for pair in zip(a.valid, b.valid, strict=True)), 0, both("met"), both("unsure"),
        both("first"),
    )  # fmt: skip
    keyless = np.concatenate([np.arange(len(s)) >= s.keyed for s in (a, b)])
    return whole.take(np.lexsort((whole.code, keyless)), a.keyed + b.keyed)


def candidates(left: Segment, right: Segment) -> Iterator[tuple[Ints, Ints]]:
    """Places of rows whose codes are equal, some at a time."""
    if left.keyed > right.keyed:
        yield from ((a, b) for b, a in candidates(right, left))
        return
    codes = left.code[: left.keyed]
    low = np.searchsorted(right.code[: right.keyed], codes, side="left")
    high = np.searchsorted(right.code[: right.keyed], codes, side="right")
    yield from spread(low, high)


def spread(low: Ints, high: Ints) -> Iterator[tuple[Ints, Ints]]:
    """All pairs (k, p) with low[k] <= p < high[k], in parts of a bounded length."""
    counts = high - low
    total = np.cumsum(counts)
    first = 0
    while first < len(counts):
        base = total[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(total, base + PAIRS, side="right")))
        some = counts[first:last]
        if some.any():
            k = np.repeat(np.arange(first, last), some)
            within = np.arange(len(k)) - np.repeat(np.cumsum(some) - some, some)
            yield k, low[k] + within
        first = last
