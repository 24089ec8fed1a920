"""Re-cutting: the rows that the cells of one cut stored, sent to the cells of another.

A row that was copied to several cells is taken from one of them, the one whose other coordinates are 0, so it comes once;
the new cut copies it as it copies rows that arrive. Every new cell hears all clocks; the counts of all old cells go to
the first, so that their sums stay exact.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.engine import snapshot
from thalweg.engine.adopt import adopt, adoptable, stored
from thalweg.engine.identity import lasting
from thalweg.engine.placing import spread
from thalweg.engine.stage import Counts
from thalweg.execute.shape import Shape
from thalweg.plan.shares import Shares
from thalweg.state.kernels.layout import KEYS, MEMBERS
from thalweg.state.store import read_ipc, write_ipc

if TYPE_CHECKING:
    from thalweg.engine.block import BlockEngine

ROWS, RECORD, FAILED = "rows/", "record/", "failed/"


@dataclass(frozen=True)
class Grid:
    """A cut into cells: the share of each key class, and the classes of each input by its lasting name.

    >>> grid = Grid((2, 3), {"a": (0, 1), "b": (0,)})
    >>> [grid.first(cell, "b") for cell in range(6)]
    [True, False, False, True, False, False]
    >>> Grid.of(grid.record()) == grid
    True
    """

    sizes: tuple[int, ...]
    classes: Mapping[str, tuple[int, ...]]

    @classmethod
    def made(cls, shape: Shape, shares: Shares) -> Grid:
        names = lasting(shape)
        return cls(shares.sizes, {names[a]: tuple(shape.classes[n]) for a, n in shape.number.items()})

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Grid:
        return cls(tuple(record["sizes"]), {name: tuple(own) for name, own in record["classes"].items()})

    def record(self) -> dict[str, Any]:
        return {"sizes": list(self.sizes), "classes": {name: list(own) for name, own in self.classes.items()}}

    @property
    def cells(self) -> int:
        return Shares(self.sizes).cells

    def first(self, cell: int, name: str) -> bool:
        """Whether a cell holds the first copy of the rows it has of an input."""
        shares = Shares(self.sizes)
        free = [c for c in range(len(self.sizes)) if c not in self.classes[name]]
        return all(cell // shares.stride(c) % self.sizes[c] == 0 for c in free)


def scattered(
    shape: Shape, old: Grid, shares: Shares, cell: int, parts: Mapping[str, bytes], only: int | None = None
) -> Iterator[tuple[int, str, bytes]]:
    """What an old cell has for the new ones, or for one of them: the new cell, a name, and the content."""
    record = snapshot.record_in(parts)
    by_alias = {entry["alias"]: name for name, entry in record["identity"]["inputs"].items()}
    now = {name: alias for alias, name in lasting(shape).items()}
    for was, table in stored(record, parts):
        name = by_alias[was]
        if name in now and old.first(cell, name):
            attributes = record["identity"]["inputs"][name]["attributes"]
            for target, rows in placed(shape, shares, now[name], attributes, table):
                if only in (None, target):
                    yield target, f"{ROWS}{now[name]}/{cell}", write_ipc(rows)
    kept = {k: record[k] for k in ("identity", "counts", "sources", "tick", "format", "lifetimes")}
    kept["inputs"] = {alias: {"counts": entry["counts"]} for alias, entry in record["inputs"].items()}
    for target in range(shares.cells) if only is None else [only]:
        yield target, f"{RECORD}{cell}", json.dumps(kept).encode()


def placed(
    shape: Shape, shares: Shares, alias: str, attributes: Sequence[list[str]], table: pa.Table
) -> Iterator[tuple[int, pa.Table]]:
    """Stored rows by new cell, from the codes of their keys."""
    n = shape.number[alias]
    table = table.filter(pa.array(table[f"cell.{MEMBERS}"].to_numpy() != 0))
    base: NDArray[np.int64] = np.zeros(table.num_rows, np.int64)
    for c in shape.classes[n]:
        if shares.sizes[c] > 1:
            at = attributes.index([shape.key_columns[n][c][0], str(shape.coders[c].type)])
            codes = np.ascontiguousarray(table[f"cell.{KEYS + at}"].to_numpy())
            base += (spread(codes) % np.uint64(shares.sizes[c])).astype(np.int64) * shares.stride(c)
    order = np.argsort(base, kind="stable")
    table, base = table.take(pa.array(order)), base[order]
    ends = [0, *(np.flatnonzero(np.diff(base)) + 1).tolist(), len(base)]
    for start, end in pairwise(ends):
        if end > start:
            for offset in shares.offsets(shape.classes[n]):
                yield int(base[start]) + offset, table.slice(start, end - start)


def gather(engine: BlockEngine, cell: int, contents: Mapping[str, bytes]) -> None:
    """A fresh cell takes up what old cells had for it."""
    records = [json.loads(content) for name, content in contents.items() if name.startswith(RECORD)]
    found = snapshot.compared(engine, records[0])
    adoptable(engine, records[0])
    before = engine.aliases_before = found.aliases
    rows: dict[str, list[pa.Table]] = {}
    for name in sorted(contents):
        if name.startswith(ROWS):
            rows.setdefault(name.removeprefix(ROWS).rpartition("/")[0], []).append(read_ipc(contents[name]))
    clocks = {}
    for alias, was in before.items():
        if alias not in engine.given:
            marks = [r["sources"][was] for r in records]
            counts = [sum(m[k] for m in marks) if cell == 0 else 0 for k in range(2, 6)]
            clocks[alias] = [max(m[0] for m in marks), max(m[1] for m in marks), *counts]
    adopt(engine, records[0]["identity"], rows, clocks)
    flow = engine.flow
    flow.batches, engine.begun = max(r["counts"][0] for r in records), True
    if cell == 0:
        flow.output.count = sum(r["counts"][1] for r in records)
        for stage in engine.stages:
            stage.counts = _sum([Counts(*r["inputs"][before[stage.alias]]["counts"]) for r in records])
        snapshot.tell(engine, found)
        failed = sum(int(content) for name, content in contents.items() if name.startswith(FAILED))
        if engine.faults is not None and failed:
            engine.faults.go_on(failed)


def _sum(counts: Sequence[Counts]) -> Counts:
    total = Counts()
    for c in counts:
        for name in ("rows_in", "keyless", "built", "evicted", "work", "extra_work", "buckets", "hashes"):
            setattr(total, name, getattr(total, name) + getattr(c, name))
        for operator, line in c.visits.items():
            before = total.visits.get(operator, [0] * len(line))
            total.visits[operator] = [a + b for a, b in zip(before, line, strict=True)]
    return total
