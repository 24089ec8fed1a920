"""Packing and cells without a cluster: the tasks themselves on micro-batches, against DuckDB.

Batches are replayed from the state before them, and cells move to workers that know only the state store.
"""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import Row
from tests.spark import joinshapes
from tests.spark.joinshapes import NAMES, SCHEMA, SHAPES

from thalweg.contract.report import TaskReport
from thalweg.engine.placing import ByShares
from thalweg.errors import CheckpointError
from thalweg.execute.shape import Shape
from thalweg.language.bind import bind
from thalweg.language.query import Query, Source
from thalweg.optimize import shares as sharing
from thalweg.spark.cell import Cell
from thalweg.spark.celltask import CellTask
from thalweg.spark.pack import PackTask
from thalweg.spark.shared import MEMBERS
from thalweg.state.store import read_ipc

LATENESS = "3 seconds"


class Store:
    """A cell's state, as Spark's MapState has it."""

    def __init__(self, parts: dict[str, bytes] | None = None) -> None:
        self.parts = dict(parts or {})

    def exists(self) -> bool:
        return bool(self.parts)

    def getValue(self, key: tuple[str]) -> tuple[bytes] | None:
        return (self.parts[key[0]],) if key[0] in self.parts else None

    def iterator(self) -> Iterator[tuple[tuple[str], tuple[bytes]]]:
        return iter([((k,), (v,)) for k, v in self.parts.items()])

    def updateValue(self, key: tuple[str], value: tuple[bytes]) -> None:
        self.parts[key[0]] = value[0]

    def removeKey(self, key: tuple[str]) -> None:
        del self.parts[key[0]]


@dataclass
class Cluster:
    """Runs a query's micro-batches as Spark would: pack every input, then every cell on its rows and state."""

    query: Query
    sources: dict[str, str]
    cells: int
    policy: str
    draw: random.Random
    folder: str
    stores: dict[int, Store] = field(default_factory=dict)
    results: list[tuple] = field(default_factory=list)
    reports: list[TaskReport] = field(default_factory=list)
    packed: list[TaskReport] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.shares, _ = sharing.for_query(self.query, self.cells)
        routed = replace(self.query, block=replace(self.query.block, filters=()))
        groups: dict[str, tuple[str, ...]] = {}
        for alias, source in self.sources.items():
            groups[source] = (*groups.get(source, ()), alias)
        self.groups = {g[0]: g for g in groups.values()}
        token = uuid.uuid4().hex
        self.task = CellTask(routed, self.policy, 1, self.shares, {}, token, self.folder, "q", self.groups)

    def pack(self, aliases: tuple[str, ...], table: pa.Table, parts: int = 2) -> list[Row]:
        """What Spark does before packing, and packing."""
        masks = np.zeros(len(table), np.int64)
        for k, alias in enumerate(aliases):
            holds = pa.array(np.ones(len(table), bool))
            for f in self.query.block.filters:
                if f.input == alias and not f.functions:
                    judged = f.evaluate({c: table[c].combine_chunks() for c in f.columns})
                    holds = pc.and_(holds, pc.fill_null(judged, False))
            masks |= holds.to_numpy(zero_copy_only=False).astype(np.int64) << k
        shape = Shape(self.query, prefiltered=True, leave=True)
        read = list(dict.fromkeys(c for a in aliases for c in shape.read(shape.number[a])))
        table = table.append_column(MEMBERS, pa.array(masks)).filter(pa.array(masks > 0))
        table = table.select([*read, MEMBERS] if len(aliases) > 1 else read)
        task = PackTask(self.query, aliases, "us", ByShares(self.shares), self.policy, 1, self.folder, "q")
        size = max(len(table) // parts, 1)
        rows = []
        for n, start in enumerate(range(0, len(table), size)):
            for packed in task.run(iter(table.slice(start, size).combine_chunks().to_batches())):
                rows += [Row(**(r | {"part": n})) for r in packed.to_pylist() if r["stats"] is None]
                told = [TaskReport.of(json.loads(r["stats"])) for r in packed.to_pylist() if r["stats"] is not None]
                self.packed += told
        return rows

    def start(self, tables: dict[str, pa.Table]) -> None:
        for alias, table in tables.items():
            for row in self.pack((alias,), table):
                if row.blob is not None:
                    Cell(self.task, self.stores.setdefault(row.key, Store())).keep_table(row)

    def batch(self, streams: dict[str, pa.Table]) -> None:
        if self.draw.random() < 0.3:  # restarted, or in a new worker
            self.task = replace(self.task, token=uuid.uuid4().hex)
        rows = [r for g in self.groups.values() for r in self.pack(g, streams[self.sources[g[0]]])]
        for key in {r.key for r in rows}:
            store = self.stores.setdefault(key, Store())
            own, before = [r for r in rows if r.key == key], Store(store.parts)
            found = self.run(key, own, store)
            if self.draw.random() < 0.3:  # the batch failed after the cell was done
                self.stores[key] = before
                assert sorted(self.run(key, own, before), key=repr) == sorted(found, key=repr)
            self.results += found

    def run(self, key: int, rows: list[Row], store: Store) -> list[tuple]:
        *blobs, (_, told) = Cell(self.task, store).run(key, rows)
        self.reports.append(TaskReport.of(json.loads(told)))
        return [tuple(r.values()) for blob, _ in blobs for r in read_ipc(blob).to_pylist()]


def cluster(name: str, cells: int, policy: str, folder: str, seed: int) -> Cluster:
    shape = SHAPES[name]
    sources = {s: Source(SCHEMA, time="ts", lateness=LATENESS) for s in shape.streams}
    functions = {"odd": joinshapes.odd} if "odd(" in shape.ours else {}
    tables = {"names": Source(NAMES.schema)} if shape.table else {}
    bound = bind(shape.ours, sources | tables, functions).query
    named = tuple(replace(i, source=i.alias) for i in bound.inputs)
    streams = {i.alias: i.source for i in bound.inputs if i.is_stream}
    query = replace(bound, block=replace(bound.block, inputs=named))
    return Cluster(query, streams, cells, policy, random.Random(seed), folder)


def run(name: str, cells: int, policy: str, folder, seed: int = 0) -> Cluster:
    made = cluster(name, cells, policy, str(folder), seed)
    if SHAPES[name].table:
        made.start({"t": NAMES})
    order = random.Random(f"{name}{cells}{seed}")
    tables = {}
    for stream in SHAPES[name].streams:
        rows = joinshapes.table(stream)
        late = [t.as_py().timestamp() + order.uniform(0, 2) for t in rows["ts"]]
        tables[stream] = rows.take(sorted(range(len(rows)), key=late.__getitem__))
    for k in range(0, 400, 80):
        made.batch({s: t.slice(k, 80) for s, t in tables.items()})
    end = [{"id": 10**6, "ts": joinshapes.EPOCH + joinshapes.timedelta(days=1)}]
    made.batch(dict.fromkeys(tables, pa.Table.from_pylist(end, SCHEMA)))
    return made


@pytest.mark.parametrize("cells", [1, 2, 5])
@pytest.mark.parametrize("name", [n for n in SHAPES if not n.startswith("one stream and a table")])
def test_cells_give_duckdbs_answer_through_replays_and_moves(name, cells, tmp_path):
    policy = random.Random(f"{name}{cells}").choice(["auto", "chaos", "written"])
    made = run(name, cells, policy, tmp_path)
    needed = [c.name if c.input != "t" else "name" for c in made.task.engine().blocks[0].shape.needed]
    assert len(needed) + 1 == len(made.results[0])
    answer = joinshapes.answer(SHAPES[name])
    ids = [k for k, n in enumerate(needed) if n in ("id", "name")]
    got = [tuple(str(row[k]).upper() if needed[k] == "name" else row[k] for k in ids) for row in made.results]
    assert sorted(got) == sorted(answer)
    assert {r.loaded for r in made.reports} >= {"new", "state"}
    assert sum(i.late for r in made.reports for i in r.inputs) == 0


@pytest.mark.parametrize("cells", [2, 5])
def test_a_stream_joined_with_itself_is_sent_once_to_each_cell(cells, tmp_path):
    """a.k and b.j decide about the cell: a row goes to at most two, and its copies for both inputs are one."""
    made = run("a stream with itself", cells, "written", tmp_path)
    assert len(made.packed) == 11, "one source, two tasks a batch"
    sent = sum(sum(r.sent) for r in made.packed)
    apart = sum(i.rows_out for r in made.packed for i in r.inputs)
    assert sent < apart
    assert all(i.rows_in <= 40 for r in made.packed for i in r.inputs)


def test_a_changed_query_is_refused_by_name(tmp_path):
    made = run("two streams", 1, "written", tmp_path)
    (key,) = made.stores
    shorter = tuple(replace(k, columns=k.columns[:1]) for k in made.query.block.keys)
    query = replace(made.task.query, block=replace(made.task.query.block, keys=shorter))
    other = replace(made.task, query=query, token="other")
    with pytest.raises(CheckpointError, match="join keys"):
        list(Cell(other, made.stores[key]).run(key, []))
