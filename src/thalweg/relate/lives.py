"""Lives: the rows of a relation as results with lifetimes again. A row that leaves ends the oldest equal one."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from thalweg.contract.relation import FOREVER, Changes, Closings, Deltas, Moves
from thalweg.relate.arrivals import nothing
from thalweg.state.keys import canonical


class Lives:
    """Takes changes, gives results that begin and ends that follow. Unless something `closes`, nothing is kept."""

    def __init__(self, schema: pa.Schema, *, closes: bool = True) -> None:
        self.schema = schema
        self.closes = closes
        self.count = 0
        self._rows: dict[str, deque[int]] = defaultdict(deque)
        """By row: the numbers of the results that live, oldest first."""

    def take(self, changes: Changes, floor: int) -> Moves:
        """Ends follow their beginnings, so a result that begins and ends in one step knows its end."""
        if not self.closes:
            return self._grown(changes, floor)
        which: list[int] = []
        ends: dict[int, int] = {}
        first = self.count
        signs, times = changes.sign.tolist(), changes.time.tolist()
        for k, row in enumerate(_rows(changes.rows)):
            for _ in range(signs[k]):
                self._rows[row].append(self.count)
                which.append(k)
                self.count += 1
            for _ in range(-signs[k]):
                ends[self._rows[row].popleft()] = times[k]
            if not self._rows[row]:
                del self._rows[row]
        number = np.arange(first, self.count)
        end = np.array([ends.pop(n, FOREVER) for n in number.tolist()], np.int64)
        at = np.array(which, np.int64)
        batches = changes.rows.take(pa.array(at)).combine_chunks().to_batches()
        rows = batches[0] if batches else nothing(self.schema)
        closed = Closings(np.array(list(ends), np.int64), np.array(list(ends.values()), np.int64))
        return Moves(Deltas(rows, number, changes.time[at], end), closed, floor)

    def _grown(self, changes: Changes, floor: int) -> Moves:
        """Rows that never leave."""
        at = np.repeat(np.arange(len(changes.sign)), changes.sign)
        number = np.arange(self.count, self.count + len(at))
        self.count += len(at)
        batches = changes.rows.take(pa.array(at)).combine_chunks().to_batches()
        none = np.empty(0, np.int64)
        deltas = Deltas(
            batches[0] if batches else nothing(self.schema), number, changes.time[at], np.full(len(at), FOREVER)
        )
        return Moves(deltas, Closings(none, none), floor)

    def size(self) -> int:
        return sum(map(len, self._rows.values()))

    def snapshot(self) -> dict[str, bytes]:
        return {"lives": json.dumps([self.count, [[r, list(n)] for r, n in self._rows.items()]]).encode()}

    def restore(self, parts: Mapping[str, bytes]) -> None:
        self.count, rows = json.loads(parts["lives"])
        self._rows = defaultdict(deque, {row: deque(numbers) for row, numbers in rows})


def _rows(table: pa.Table) -> list[str]:
    """Rows as texts that are equal exactly when the rows are."""
    columns = [column.to_pylist() for column in table.columns]
    return [repr(tuple(map(canonical, row))) for row in zip(*columns, strict=True)] or ["()"] * table.num_rows
