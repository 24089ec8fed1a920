"""Caches as operators: a visit replaces a run of stems (thesis 5.4).

A batch is looked up at once: rows with a known key get its combinations; each distinct key that is missing goes through
the stems once, without its rows' times, so that what is stored does not depend on who asked. Upkeep: new rows of a cached
input are joined with the rest of the segment, on their way if their route begins with it (the prefix invariant), else
separately; the combinations enter once the rows are stored. A combination leaves by its time, or with its slice. What
can't be kept up is dropped: a cache is never state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.execute.operators.stem import Stems
from thalweg.execute.shape import Shape
from thalweg.language.query import Column
from thalweg.plan.cached import Cached, Placed
from thalweg.profile.rates.distinct import DistinctKeys
from thalweg.state.cache import CacheStore, Pages, SegmentInput
from thalweg.state.ids import ids_of
from thalweg.state.kernels import cache as kernels
from thalweg.state.kernels.layout import ALWAYS, KEYS, narrowed
from thalweg.state.keys import KeyCoder, raw, validity
from thalweg.state.slice import Slice

Ints = NDArray[np.int64]


@dataclass
class Met:
    """What a cache did since the beginning, or since it was last asked."""

    probes: int = 0
    """Rows looked up."""
    misses: int = 0
    """Distinct keys of a batch that were missing."""
    looked: int = 0
    """Records read."""
    rows_out: int = 0
    filled: int = 0
    """Records of entries created."""
    upkeep: int = 0
    """Combinations of new rows that were offered to it."""
    inserted: int = 0
    """Of them, those whose key it had."""
    dropped: int = 0
    """Times it was emptied because it could not be kept up."""
    work: float = 0.0
    """Work of the stems for missing keys and for upkeep that no route did on its way."""

    def plus(self, other: Met) -> Met:
        return Met(**{k: v + getattr(other, k) for k, v in vars(self).items()})


class Reader:
    """Reads the keys of partial results."""

    def __init__(self, cached: Cached, shape: Shape) -> None:
        self.class_columns = np.array([shape.class_column(c) for c in cached.keys], np.int64)
        self.columns = judged_columns(shape, cached)
        self.width = len(self.class_columns) + 2 * len(self.columns)

    def keys(self, chunk: Ints, values: Sequence[pa.Array] = ()) -> Ints:
        """Keys; `values` are what the rows bring to the predicates that the cache judges."""
        if not self.columns:
            return narrowed(np.ascontiguousarray(chunk), self.class_columns)
        keys = np.empty((len(chunk), self.width), np.int64)
        at = len(self.class_columns)
        if at:
            keys[:, :at] = chunk[:, self.class_columns]
        for k, array in enumerate(values):
            codes, valid = bits_of(array)
            keys[:, at + 2 * k] = codes if valid is None else np.where(valid, codes, 0)
            keys[:, at + 2 * k + 1] = 1 if valid is None else valid
        return keys


class Shadow:
    """A cache that is only watched: which of its keys would be new."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self._distinct = DistinctKeys()
        self._rows, self._new = 0, 0.0

    def see(self, chunk: Ints, values: Sequence[pa.Array]) -> None:
        self._new += self._distinct.see(self.reader.keys(chunk, values))
        self._rows += len(chunk)

    def drain(self) -> tuple[int, float]:
        """Rows since the last call, and how many of their keys were new."""
        seen = self._rows, self._new
        self._rows, self._new = 0, 0.0
        return seen


class Cache:
    """One store, for every pipeline that places it."""

    def __init__(self, cached: Cached, shape: Shape, stems: Stems, pages: Pages) -> None:
        self.cached = cached
        inputs = sorted(cached.inputs)
        known = {c for i in inputs for c in shape.classes[i]}
        self.reader = Reader(cached, shape)
        extra = sorted(known - set(cached.keys))
        self.adds = np.array([(KEYS + k, shape.class_column(c)) for k, c in enumerate(extra)], np.int64).reshape(-1, 2)
        at = KEYS + len(extra)
        self.place_of = {i: at + k for k, i in enumerate(inputs)}
        """The record's column with the id of each input's row."""
        members = [SegmentInput(stems.stem(i), shape.store(i).inputs.index(i), at + k, shape.row_column(i))
                   for k, i in enumerate(inputs)]  # fmt: skip
        self.store = CacheStore(self.reader.width, at + len(inputs), members, pages)
        self.inputs = inputs
        self.met = Met()
        self._by_input: dict[int, tuple[int, int]] = {}
        self.waiting: list[tuple[Ints, Ints]] = []
        """Keys and records of rows under way; own rows by number."""
        self.broken = False
        """Whether rows under way could not be followed."""
        for stem in {id(m.stem): m.stem for m in members}.values():
            stem.listeners.append(self)

    def probed(self, i: int, rows: int, missing: int) -> None:
        """Rows of an input were looked up; this many distinct keys were missing."""
        self.met.probes += rows
        self.met.misses += missing
        probes, misses = self.by_input(i)
        self._by_input[i] = probes + rows, misses + missing

    def by_input(self, i: int) -> tuple[int, int]:
        """Probes and misses of an input's rows."""
        return self._by_input.get(i, (0, 0))

    def close(self) -> None:
        """Give everything back."""
        self.store.clear()
        for m in self.store.members:
            if self in m.stem.listeners:
                m.stem.listeners.remove(self)

    # What stems tell

    def built(self, ids: Ints) -> None:
        """Rows enter with what they were joined with: see `Caches.stored`."""

    def evicted(self, ids: Ints) -> None:
        """Ids of slices that are gone lead nowhere."""

    def renumbered(self, before: Ints, after: Ints) -> None:
        self.drop()

    def drop(self) -> None:
        """Forget everything."""
        self.met.dropped += self.store.live > 0
        self.store.clear()
        self.waiting, self.broken = [], False

    # Keys and records

    def records(self, chunk: Ints, own: int | None = None) -> Ints:
        """Combinations as records. The row number of input `own` stays: its rows have no id yet."""
        where = self.store.where()
        slices = where.slices
        if own is not None:
            slices = slices[slices[:, 0] != self.inputs.index(own)]
        records = np.empty((len(chunk), self.store.width), np.int64)
        kernels.pack(chunk, self.adds, where.members, np.ascontiguousarray(slices), records)
        return records

    # Upkeep

    def arriving(self, own: int, chunk: Ints) -> None:
        """Combinations of the segment with new rows of one of its inputs."""
        self.met.upkeep += len(chunk)
        if self.store.live and not self.cached.judges:
            self.waiting.append((self.reader.keys(chunk), self.records(chunk, own)))

    def stored(self, own: int, ids: Ints, floor: int) -> None:
        """The new rows have their ids: those of rows by number."""
        if self.cached.judges or self.broken:
            self.drop()
            return
        for keys, records in self.waiting:
            column = self.place_of[own]
            records[:, column] = ids[records[:, column]]
            self.met.inserted += self.store.insert(keys, records, floor)
        self.waiting = []


@dataclass
class Caches:
    """All caches of a query: where they are placed, and what follows from that for rows on their way."""

    shape: Shape
    stems: Stems
    pages: Pages = field(default_factory=Pages)
    caches: dict[Cached, Cache] = field(default_factory=dict)
    placed: set[Placed] = field(default_factory=set)
    floor: int = ALWAYS
    """No row that still comes is older."""
    version: int = 0
    """Counts changes of what is placed or watched."""
    shadows: dict[Placed, Shadow] = field(default_factory=dict)
    """Caches that are only watched."""
    gone: Met = field(default_factory=Met)
    """What caches did that are no longer placed."""

    def place(self, wanted: set[Placed]) -> bool:
        """Place exactly these; new ones begin empty. Returns whether anything changed."""
        if wanted == self.placed:
            return False
        kept = {p.cached for p in wanted}
        for cached in [c for c in self.caches if c not in kept]:
            cache = self.caches.pop(cached)
            cache.close()
            self.gone = self.gone.plus(cache.met)
        for cached in kept - set(self.caches):
            self.caches[cached] = Cache(cached, self.shape, self.stems, self.pages)
        self.placed = set(wanted)
        self.version += 1
        return True

    @property
    def met(self) -> Met:
        """What all caches did so far."""
        return reduce(Met.plus, (c.met for c in self.caches.values()), self.gone)

    def watch(self, wanted: set[Placed]) -> None:
        """Count the keys that would come to these."""
        if wanted == set(self.shadows):
            return
        self.shadows = {p: self.shadows.get(p) or Shadow(Reader(p.cached, self.shape)) for p in wanted}
        self.version += 1

    def shadowed(self, i: int, bound: frozenset[int], targets: Sequence[int]) -> tuple[Shadow, ...]:
        """Those that would replace the stems that come next to rows of input i."""
        return tuple(s for p, s in self.shadows.items() if self._fits(p, i, bound, targets))

    def _fits(self, p: Placed, i: int, bound: frozenset[int], targets: Sequence[int]) -> bool:
        inputs, graph = p.cached.inputs, self.shape.graph
        if p.input != i or frozenset(targets[: len(inputs)]) != inputs or p.cached.keys != graph.keys(bound, inputs):
            return False
        return not p.cached.judges or p.cached.judges == graph.by_value(bound, inputs)

    def __bool__(self) -> bool:
        return bool(self.caches) or bool(self.shadows)

    def at(self, i: int, bound: frozenset[int], targets: Sequence[int]) -> Cache | None:
        """The largest cache in the pipeline of input i that replaces the stems that come next."""
        fitting = [self.caches[p.cached] for p in self.placed if self._fits(p, i, bound, targets)]
        return max(fitting, key=lambda c: (len(c.inputs), len(c.cached.judges)), default=None)

    def watching(self, i: int) -> list[Cache]:
        """The caches that must hear of new rows of an input."""
        return [c for c in self.caches.values() if i in c.cached.inputs]

    def reached(self, i: int, bound: frozenset[int]) -> list[Cache]:
        """The caches that must hear of combinations of exactly these inputs, made by rows of input i."""
        return [c for c in self.caches.values() if c.cached.inputs == bound and i in bound]

    def begin(self, i: int, *, followed: bool) -> None:
        """Rows of an input set out; unless they are `followed`, what they are joined with is not told."""
        for cache in self.watching(i):
            cache.waiting, cache.broken = [], not followed and cache.store.live > 0

    def stored(
        self, i: int, own: Ints, placed: Sequence[tuple[Slice, int, int]], rows: int, which: Ints | None
    ) -> None:
        """New rows of an input are stored: row numbers `own` of `rows` rows, where the stem put them (all of them, or
        those at the places `which`)."""
        watching = self.watching(i)
        if not watching:
            return
        ids = np.full(rows, -1, np.int64)
        found = ids_of(placed)
        ids[own] = found if which is None else found[which]
        for cache in watching:
            cache.stored(i, ids, self.floor)

    def drop(self) -> None:
        for cache in self.caches.values():
            cache.drop()


def judged_columns(shape: Shape, cached: Cached) -> list[Column]:
    """What the rows before a segment bring to the predicates that its cache judges."""
    found = dict[Column, None]()
    for r in cached.judges:
        for column in shape.residuals[r].columns:
            if shape.number[column.input] not in cached.inputs:
                found[column] = None
    return list(found)


def bits_of(array: pa.Array) -> tuple[Ints, NDArray[np.bool_] | None]:
    """A code for each value, equal only where all bits are: a predicate may tell 0.0 from -0.0."""
    if pa.types.is_floating(array.type):
        return raw(array.cast(pa.float64()), np.float64).view(np.int64), validity(array)
    return KeyCoder(array.type).code(array)
