"""State in files on its way to other cells: the new cells read it from the files of the old ones, in the next batch.

Batch n reads version n - 1. Cell 0 is part of every cut, so its version says into which cells all of that version was cut.
If that is not the cut of the query, each cell reads the version of every old cell and takes what it gets, as the driver
would (`moved.py`). So what a batch does depends on the version before it and on its rows alone: killed and run again, it
does the same, under the same cut or another one. Versions of cells that are part of no later cut are never read, though
they lie there, and go as they grow old. A task of a killed driver may come late and write its version over that of the
attempt which took its place: if not all cells that cell 0 names are of its cut then, they are refused.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from thalweg.engine.recut import Grid
from thalweg.language.query import Query
from thalweg.spark.celltask import CellTask
from thalweg.spark.keys import FIRST, cell_keys
from thalweg.spark.moved import SEAL, Mover
from thalweg.spark.seal import Seal, check_format, other_cut, refuse_cut, refuse_mixed
from thalweg.state.versions import Versions, batches


@dataclass(frozen=True)
class FileMove:
    """State of an old cut in files; a `Moving`."""

    root: Path
    batch: int
    task: CellTask
    seal: Seal

    @classmethod
    def of(cls, root: Path, batch: int, task: CellTask) -> FileMove | None:
        """None if the version before the batch is of the query's own cut."""
        kept = None if batch == 0 else Versions(root / str(FIRST), batch).getValue((SEAL,))
        if kept is None:
            return None
        seal = json.loads(bytes(kept[0]))
        check_format(seal)
        if not other_cut(seal, task.seal):
            return None
        if not isinstance(task.query, Query):
            raise refuse_cut(seal, task.seal)
        return cls(root, batch, task, seal)

    def parts(self, key: int) -> dict[str, bytes]:
        """What there is for one cell."""
        return {name: content for _, name, content in self._lines(key)}

    def _lines(self, key: int) -> Iterator[tuple[int, str, bytes]]:
        assert isinstance(self.task.query, Query)
        old = Grid.of(self.seal["grid"])
        move = Mover(self.task.query, self.task.shares, old, self.task.shared, only=key)
        for was in cell_keys(old.cells):
            store = Versions(self.root / str(was), self.batch)
            parts = {name: bytes(content) for (name,), (content,) in store.iterator()}
            if SEAL not in parts or Grid.of(json.loads(parts[SEAL])["grid"]) != old:
                raise refuse_mixed()
            yield from move.run(was, parts)


def clean(root: Path, before: int) -> None:
    """Remove the folders of cells whose last version is older than a batch."""
    for folder in root.iterdir():
        if max(batches(folder), default=before) < before:
            shutil.rmtree(folder, ignore_errors=True)
