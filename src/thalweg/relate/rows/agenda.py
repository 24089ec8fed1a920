"""An agenda: changes that are known but lie ahead. Rows wait here for the instant at which they enter or leave.

Waiting changes lie in runs sorted by time; runs of like size are merged, so adding a change costs a logarithm and
taking those that are due costs what is due. Changes of one instant keep the order in which they were added. A run is
written once, so snapshots change little.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.relate.rows.dictionary import Dictionary
from thalweg.relate.rows.parts import below, under
from thalweg.state.slice import ALWAYS
from thalweg.state.store import read_ipc, write_ipc

Ints = NDArray[np.int64]
TIME, ROW, SIGN = range(3)
HOLDERS = "\0holders"


class Agenda:
    def __init__(self, schema: pa.Schema) -> None:
        self.rows = Dictionary(schema, grouping=False)
        """The rows that wait. `hold` and `drop` count who needs them."""
        self.rows.add_field(HOLDERS)
        self._runs: list[Ints] = []
        """Each sorted by time, largest run first: columns TIME, ROW, SIGN."""
        self._written: list[tuple[Ints, bytes]] = []
        """Runs and their bytes. A run is kept, not its id: Python gives the id of an array that is gone to a new one."""
        self._since = ALWAYS
        """What lies before was given."""

    def __len__(self) -> int:
        return sum(len(run) for run in self._runs)

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes + sum(run.nbytes for run in self._runs)

    def hold(self, numbers: Ints) -> None:
        np.add.at(self.rows.fields[HOLDERS], numbers, 1)
        self.rows.touch(numbers)

    def drop(self, numbers: Ints) -> None:
        holders = self.rows.fields[HOLDERS]
        np.subtract.at(holders, numbers, 1)
        self.rows.touch(numbers)
        self.rows.release(numbers[holders[numbers] == 0])

    def add(self, numbers: Ints, time: Ints, sign: Ints) -> None:
        """Rows, by number, that enter or leave at a time not before the last frontier."""
        if not len(numbers):
            return
        self.hold(numbers)
        run = np.stack([time, numbers, sign], axis=1)
        if (np.diff(time) < 0).any():
            run = run[np.argsort(time, kind="stable")]
        self._runs.append(run)
        while len(self._runs) > 1 and 2 * len(self._runs[-1]) > len(self._runs[-2]):
            second, first = self._runs.pop(), self._runs.pop()
            both = np.concatenate([first, second])
            self._runs.append(both[np.argsort(both[:, TIME], kind="stable")])

    def due(self, frontier: int) -> tuple[Ints, Ints, Ints]:
        """Rows, times and signs of the changes before the frontier. The caller drops the rows when it is done."""
        found = []
        for k, run in enumerate(self._runs):
            cut = int(np.searchsorted(run[:, TIME], frontier))
            if cut:
                found.append(run[:cut])
                self._runs[k] = run[cut:] if 2 * cut < len(run) else run[cut:].copy()
        self._runs = [run for run in self._runs if len(run)]
        self._since = frontier
        if not found:
            return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64)
        both = np.concatenate(found)
        if len(found) > 1:
            both = both[np.argsort(both[:, TIME], kind="stable")]
        columns = np.ascontiguousarray(both.T)
        return columns[ROW], columns[TIME], columns[SIGN]

    def waiting(self, until: int) -> tuple[Ints, Ints]:
        """Rows and signs of the changes up to an instant, which stay."""
        runs = [run[: np.searchsorted(run[:, TIME], until, side="right")] for run in self._runs]
        both = np.concatenate([np.empty((0, 3), np.int64), *runs])
        return both[:, ROW], both[:, SIGN]

    def snapshot(self) -> dict[str, bytes]:
        parts = under("rows", self.rows.snapshot()) | {"since": str(self._since).encode()}
        kept: list[tuple[Ints, bytes]] = []
        for k, run in enumerate(self._runs):
            # A slice of a run is written as the whole run: what was given is skipped when it is read.
            whole = run if run.base is None or run.base.ndim != 2 else run.base
            content = next((written for known, written in self._written if known is whole), None)
            if content is None:
                columns = {str(c): pa.array(np.ascontiguousarray(whole[:, c])) for c in range(3)}
                content = write_ipc(pa.table(columns))
            parts[f"run/{k}"] = content
            kept.append((whole, content))
        self._written = kept
        return parts

    def restore(self, parts: Mapping[str, bytes]) -> None:
        self.rows.restore(below("rows", parts))
        self._since, self._written, self._runs = int(parts["since"]), [], []
        runs = below("run", parts)
        for name in sorted(runs, key=int):
            table = read_ipc(runs[name])
            run = np.stack([table[str(c)].to_numpy() for c in range(3)], axis=1)
            self._runs.append(run[np.searchsorted(run[:, TIME], self._since) :])
