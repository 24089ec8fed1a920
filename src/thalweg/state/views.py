"""Views: a stem as seen by a probe of one member with one access pattern, and counting without joining.

A view is valid until the stem changes; requesting one brings the indexes it needs up to date.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from thalweg.plan.layout import Pattern
from thalweg.state.index import buckets_for, expected_rows
from thalweg.state.kernels import count as kernels
from thalweg.state.kernels.layout import FALLING, FIRST_TIME, LAST_EXPIRY, SHARES

if TYPE_CHECKING:
    from thalweg.state.stem import Stem

Ints = NDArray[np.int64]
SCANNED = 1 / 8
"""Tested: cost of scanning a stored row, as a share of entering it in an index."""


@dataclass(frozen=True, slots=True)
class StemView:
    """What a kernel needs to probe a stem for one member with one access pattern."""

    cells: Ints
    links: NDArray[np.int32]
    runs: Ints
    seen: kernels.Seen
    where: tuple[int, ...]
    """Address of the cells, their width, address of the links and of the expiries, span, the member's bit."""

    def between(self, newest: int, expiry: int) -> StemView:
        """Only the runs that partial results between these times can match."""
        r = self.runs
        if len(r) < 4:
            return self
        near = (r[:, LAST_EXPIRY] >= newest) & (r[:, FIRST_TIME] <= expiry)
        if near.all():
            return self
        return StemView(self.cells, self.links, np.ascontiguousarray(r[near]), self.seen, self.where)


@dataclass(frozen=True, slots=True)
class Counted:
    """Matches of some partial results at a stem, and the work to find them."""

    matches: Ints
    """Per partial result; -1 if it was not tried because the budget had run out."""
    work: float
    """Units of work the same probes take with an index for their access pattern."""
    entries: float
    """Rows indexed only for this count; a scanned row counts as a fraction of one."""


class Views:
    """Makes the views of one stem, and remembers them."""

    def __init__(self, stem: Stem) -> None:
        self.stem = stem
        self._views: dict[tuple[Pattern, int], tuple[tuple[int, int, int], StemView]] = {}
        self._addresses: dict[int, tuple[NDArray[Any], int]] = {}
        """Arrays and their addresses, cached because looking up an address takes microseconds."""

    def view(self, pattern: Pattern, member: int = 0) -> StemView:
        """All slices, indexed for an access pattern, as a member sees them."""
        stem = self.stem
        cached = self._views.get((pattern, member))
        if cached is not None and cached[0] == (stem.version, stem.store.version, stem.links.version):
            return cached[1]
        cells, window = stem.store.cells, stem.windows[member]
        indexes = [run.index(pattern, stem.attributes) for run in stem.runs]
        for run, index in zip(stem.runs, indexes, strict=True):
            run.refresh(stem.store.version)
            entered = index.sync(run, cells, stem.store.version, stem.links)
            if entered:
                stem.entries += entered
                stem.hashes += entered * index.hashed
        table = np.zeros((len(stem.runs), SHARES + 2 * stem.widest), np.int64)
        for line, run, index in zip(table, stem.runs, indexes, strict=True):
            line[FIRST_TIME] = run.first_time
            line[LAST_EXPIRY] = run.expiries[member]
            index.describe(line, pattern)
            # Readers of one stream store it piecemeal: of rows of one time, one that leaves later may lie behind.
            if window.scattered or (window.counted and len(stem.windows) > 1):
                line[FALLING] = 0
        links, expiries = stem.links.arrays["links"], stem.store.expiries(member)
        where = (self._address(0, cells), cells.shape[1], self._address(1, links), self._address(2 + member, expiries))
        seen = kernels.Seen(1 << member, window.span, expiries)
        view = StemView(cells, links, table, seen, (*where, window.span, 1 << member))
        self._views[pattern, member] = ((stem.version, stem.store.version, stem.links.version), view)
        return view

    def _address(self, place: int, array: NDArray[Any]) -> int:
        known = self._addresses.get(place)
        if known is None or known[0] is not array:
            known = self._addresses[place] = (array, array.ctypes.data)
        return known[1]

    def count(
        self, partial: Ints, pattern: Pattern, pairs: Ints, newest: int, expiry: int, budget: int, member: int = 0
    ) -> Counted:
        """The number of stored rows that each of a member's partial results matches; none is older or expires later
        than given. Stops after the one that brings the work to `budget`.

        If rows come and go and their access pattern has no index, or one far behind, we scan the rows: an index that
        nobody else needs would cost more.
        """
        stem = self.stem
        moving = stem.length is not None or bool(stem.store.counted)
        if pattern and moving and sum([run.missing(pattern) for run in stem.runs]) > SCANNED * stem.rows:
            counted = self._scan(partial, pairs, newest, expiry, stem.rows + budget, member)
            if counted is not None:
                return counted
        matches = np.empty(len(partial), np.int64)
        entered = stem.entries
        view = self.view(pattern, member).between(newest, expiry)
        work = kernels.count(partial, view.cells, view.links, view.runs, pairs, view.seen, budget, matches)
        return Counted(matches, work, stem.entries - entered)

    def _scan(self, partial: Ints, pairs: Ints, newest: int, expiry: int, budget: int, member: int) -> Counted | None:
        """Count by scanning, and estimate the work of probes with an index; None if too many rows share keys."""
        stem = self.stem
        blocks, rows, each = [], 0, 0.0
        for run in stem.runs:
            near = [s for s in run.slices if s.expiry_of(member) >= newest and s.first_time <= expiry]
            if near:
                blocks += [(s.start, s.start + s.rows) for s in near]
                living = sum([s.rows for s in near])
                rows += living
                each += 1.0 + living / buckets_for(expected_rows(run))
        matches = np.empty(len(partial), np.int64)
        seen = kernels.Seen(1 << member, stem.windows[member].span, stem.store.expiries(member))
        spans = np.array(blocks, np.int64).reshape(-1, 2)
        met = kernels.scan(partial, stem.store.cells, spans, pairs, seen, budget, matches)
        return Counted(matches, met + each * len(partial), SCANNED * rows) if met >= 0 else None
