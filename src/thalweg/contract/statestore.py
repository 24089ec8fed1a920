"""Where the state of a cell lives between batches: parts by name, as Spark's MapState offers them.

A batch sees the parts that the batch before it left. What it changes counts only if the batch counts: Spark's own store
commits with the batch; versioned files (`state/versions.py`) name each version by its batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol


class StateStore(Protocol):
    """The state of one cell in one batch."""

    def exists(self) -> bool: ...
    def getValue(self, key: tuple[str]) -> tuple[bytes] | None: ...
    def iterator(self) -> Iterator[tuple[tuple[str], tuple[bytes]]]: ...
    def updateValue(self, key: tuple[str], value: tuple[bytes]) -> None: ...
    def removeKey(self, key: tuple[str]) -> None: ...
