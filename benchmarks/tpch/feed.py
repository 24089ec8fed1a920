"""Orders with their lines, in the order of their keys, cut into batches of equal numbers of orders.

So every batch meets as much as the one before it (as TPC-H's own refresh functions insert rows): where its cost grows, it
grows with the history, or because the answer changes more.
"""

from __future__ import annotations

import subprocess
import sysconfig
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tests.language.tpch import ARRIVAL, QUERIES, STREAMS, TABLES, endless, sources

import thalweg as tw

KEYS = {"orders": "o_orderkey", "lineitem": "l_orderkey"}
CONTINUOUS = [name for name, text in QUERIES.items() if any(stream in text for stream in STREAMS)]


@dataclass(frozen=True)
class Step:
    """What one batch took and gave."""

    rows: int
    seconds: float
    """Of the processor."""
    changes: int
    kept: int
    """Rows that the engine keeps after it."""


def generate(scale: str, folder: Path) -> dict[str, pa.Table]:
    command = Path(sysconfig.get_path("scripts")) / "tpchgen-cli"
    subprocess.run([command, "parquet", "-s", scale, f"--output-dir={folder}"], check=True, capture_output=True)
    return {name: pq.read_table(folder / f"{name}.parquet").cast(schema) for name, schema in TABLES.items()}


def cut(data: Mapping[str, pa.Table], batches: int) -> list[dict[str, pa.Table]]:
    """The rows of each stream, by batch."""
    keys = np.sort(data["orders"][KEYS["orders"]].to_numpy())
    edges = keys[[len(keys) * k // batches for k in range(batches)]]
    found: list[dict[str, pa.Table]] = [{} for _ in range(batches)]
    for name, key in KEYS.items():
        batch = np.searchsorted(edges, data[name][key].to_numpy(), side="right") - 1
        for k, parts in enumerate(found):
            rows = data[name].filter(pa.array(batch == k))
            parts[name] = rows.append_column(ARRIVAL, pa.array(np.full(len(rows), k + 1)).cast(pa.timestamp("us")))
    return found


def engine_of(name: str, data: Mapping[str, pa.Table]) -> tw.Engine:
    """The engine of one query, without its last ORDER BY and LIMIT."""
    text = endless(QUERIES[name])
    tables = {n: t for n, t in data.items() if n not in STREAMS and n in text}
    return tw.Engine(text, sources(streaming=True), tables=tables)


def push(engine: tw.Engine, batch: int, parts: Mapping[str, pa.Table]) -> int:
    """Give it a batch; how many rows it gives back."""
    given = [engine.push(n, parts[n]) for n in engine.streams]
    given.append(engine.advance(datetime(1970, 1, 1) + timedelta(microseconds=batch + 2)))
    return sum(map(len, given))


def maintain(name: str, data: Mapping[str, pa.Table], batches: list[dict[str, pa.Table]]) -> Iterator[Step]:
    """Keep one query up to date."""
    engine = engine_of(name, data)
    for k, parts in enumerate(batches):
        began = time.process_time()
        changes = push(engine, k, parts)
        took = time.process_time() - began
        stats = engine.stats()
        kept = sum(stats["operators"].values()) + sum(i["stored"] for i in stats["inputs"].values())
        yield Step(sum(len(parts[n]) for n in engine.streams), took, changes, kept)
