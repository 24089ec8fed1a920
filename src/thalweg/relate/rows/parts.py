"""State as parts: numbered rows in blocks, one Arrow IPC message each. A block that did not change keeps its bytes.

So a snapshot costs what has changed since the last one, and a store that compares parts writes only those.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.state.keys import plain
from thalweg.state.store import read_ipc, write_ipc

Ints = NDArray[np.int64]
BLOCK = 1024
"""Numbers in a block. A block costs a few hundred bytes of its own, so it should hold many rows; a change writes one."""
NUMBER = "\0number"


class Blocks:
    """Which blocks changed since they were written."""

    def __init__(self) -> None:
        self._changed: set[int] = set()
        self._written: dict[int, bytes] = {}

    def touch(self, numbers: Ints) -> None:
        if len(numbers):
            at = numbers[numbers >= 0] // BLOCK
            self._changed.update(np.flatnonzero(np.bincount(at)).tolist())

    def snapshot(self, numbers: Ints, table: Callable[[Ints], dict[str, Any]]) -> dict[str, bytes]:
        """`numbers`: all that live, in order; `table`: columns of some of them."""
        cuts = np.searchsorted(numbers, np.arange(0, (int(numbers[-1]) if len(numbers) else -1) + 2 * BLOCK, BLOCK))
        parts: dict[str, bytes] = {}
        kept: dict[int, bytes] = {}
        for block, (low, high) in enumerate(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)):
            if low == high:
                continue
            content = None if block in self._changed else self._written.get(block)
            if content is None:
                some = numbers[low:high]
                content = write_ipc(pa.table({NUMBER: pa.array(some), **table(some)}))
            parts[str(block)] = kept[block] = content
        self._written, self._changed = kept, set()
        return parts

    @staticmethod
    def read(parts: Mapping[str, bytes]) -> tuple[Ints, dict[str, pa.Array]]:
        """Numbers in order and their columns, as `table` gave them."""
        if not parts:
            return np.empty(0, np.int64), {}
        found = pa.concat_tables([read_ipc(parts[name]) for name in sorted(parts, key=int)])
        columns = {name: plain(found[name]) for name in found.column_names}
        return columns.pop(NUMBER).to_numpy().copy(), columns


def under(prefix: str, parts: Mapping[str, bytes]) -> dict[str, bytes]:
    """Parts with a prefix before their names."""
    return {f"{prefix}/{name}": content for name, content in parts.items()}


def below(prefix: str, parts: Mapping[str, bytes]) -> dict[str, bytes]:
    """Those of the parts that have the prefix, without it."""
    start = prefix + "/"
    return {name[len(start) :]: content for name, content in parts.items() if name.startswith(start)}
