"""The cost of the flights' probes in the order of the query's text, as a baseline for the live view.

Runs the same packing and cells as on Spark, in this process and on the same files. Only the policy differs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from thalweg.demo import flights
from thalweg.engine.placing import ByShares
from thalweg.execute.shape import Shape
from thalweg.language.bind import bind
from thalweg.language.durations import Micros
from thalweg.language.query import Source
from thalweg.optimize import shares as sharing
from thalweg.spark.celltask import CellTask
from thalweg.spark.shared import Member, split
from thalweg.state.store import write_ipc
from thalweg.state.times import Clock, tick_of


def probe_work(year: flights.Year, cells: int, lateness: int, policy: str = "written") -> Iterator[tuple[int, int]]:
    """Probe work and results after each micro-batch; `lateness` in microseconds."""
    streams = {n[0]: n for n in flights.STREAMS}
    planes = year.tables["planes"]
    static = {"p": planes.filter(pc.less(planes["year"], 2002)), "a": year.tables["airlines"]}
    sources = {
        n: Source(pq.read_schema(year.parts(n)[0]), time="ts", lateness=Micros(lateness)) for n in flights.STREAMS
    }
    asked = bind(
        flights.THALWEG, sources | {n: Source(t.schema) for n, t in year.tables.items()}, flights.FUNCTIONS
    ).query
    named = tuple(replace(i, source=i.alias) for i in asked.inputs)
    query = replace(asked, block=replace(asked.block, inputs=named, filters=()))
    shares, _ = sharing.for_query(query, cells, None)
    shape = Shape(query, prefiltered=True, leave=True)
    tick = tick_of([i.spec for i in query.streams])
    content = {a: write_ipc(t.select(shape.read(shape.number[a]))) for a, t in static.items()}
    task = CellTask(query, policy, 7, shares, {}, "written")
    engines = [task.engine(content.items()) for _ in range(shares.cells)]
    for k in range(year.batches):
        arrived: list[dict[str, pa.Table]] = [{} for _ in engines]
        newest: dict[str, int] = {}
        for alias, name in streams.items():
            whole = pa.concat_tables([pq.read_table(p) for p in year.batch(name, k)])
            clock = Clock(query.input(alias).spec, tick)
            newest[alias] = int(clock.read(whole["ts"].combine_chunks())[0].max())
            parts: list[list[pa.RecordBatch]] = [[] for _ in engines]
            for piece in _judged(alias, whole).select(shape.read(shape.number[alias])).combine_chunks().to_batches():
                for cell, part in split(piece, [Member(alias, ByShares(shares).placing(shape, alias), None)]):
                    parts[cell].append(part)
            for cell, own in enumerate(parts):
                if own:
                    arrived[cell][alias] = pa.Table.from_batches(own)
        for engine, tables in zip(engines, arrived, strict=True):
            engine.take_batch(tables, newest=newest)
        told = [e.stats() for e in engines]
        work = sum(i["work"] + i["profiling work"] for t in told for i in t["inputs"].values())
        yield int(work), sum(int(t["results"]) for t in told)


def _judged(alias: str, table: pa.Table) -> pa.Table:
    """The rows for which the stream's Python predicates hold."""
    if alias == "f":
        tests: list[tuple[Any, tuple[str, ...]]] = [
            (flights.late, ("delay", "lat", "lon")),
            (flights.far, ("lat", "lon")),
            (flights.dark, ("departs", "lands", "lat", "lon")),
        ]
    else:
        tests = [(flights.rough, ("wind", "gust", "visib"))]
    for function, columns in tests:
        values = [table[c].to_pylist() for c in columns]
        table = table.filter(pa.array([function(*v) for v in zip(*values, strict=True)], pa.bool_()))
    return table
