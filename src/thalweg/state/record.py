"""The record of a stem: what it needs besides its slices to continue elsewhere as if nothing had happened.

Indexes are rebuilt, never written. We do keep which slices share an index and how many buckets it has, so a probe costs
the same after a restart and no decision changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from thalweg.plan.layout import Layout
from thalweg.state.slice import Run

if TYPE_CHECKING:
    from thalweg.state.stem import Stem


def write(stem: Stem) -> dict[str, Any]:
    """What a stem needs besides its slices to continue and to cost a probe the same: which slices share an index, and
    how many buckets indexes have. The indexes themselves are rebuilt."""
    return {
        "counts": [stem.numbers, stem.dense, stem.built, stem.entries, stem.hashes],
        "slices": [[s.number, s.since, s.until] for s in stem.slices],
        "runs": [
            {
                "layout": run.layout.record(),
                "rows": [run.expected, run.rows],
                "slices": [s.number for s in run.slices],
                "indexes": [[k, i.size, list(i.known.items())] for k, i in run.indexes.items()],
            }
            for run in stem.runs
        ],
    }


def read(stem: Stem, record: Mapping[str, Any], contents: Sequence[bytes], *, layouts: bool) -> None:
    """Take over the slices of an equal stem, with their layouts unless told otherwise."""
    for (number, since, until), content in zip(record["slices"], contents, strict=True):
        stem.open(since, until)
        stem.slices[-1].number = number
        cells, columns, order, expiries = stem.store.undump(content)
        stem.append(stem.slices[-1], cells, columns, np.arange(len(cells)), order, expiries)
    stem.numbers, stem.dense, stem.built, stem.entries, stem.hashes = record["counts"]
    stem.version += 1
    kept = [Layout.of(run["layout"]) for run in record["runs"]]
    if not layouts and any(layout != stem.layout for layout in kept):
        return
    by_number = {s.number: s for s in stem.slices}
    stem.runs = []
    for run, layout in zip(record["runs"], kept, strict=True):
        made = Run(layout, run["rows"][0], [by_number[n] for n in run["slices"]], rows=run["rows"][1])
        for key, size, known in run["indexes"]:
            pattern = None if key is None else tuple(key)
            index = made.index(pattern or (), stem.attributes)
            index.size, index.known = size, dict(known)
        stem.runs.append(made)
