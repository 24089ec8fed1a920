"""TPC-H's 22 queries, text unchanged, as DuckDB answers them: over tables, and with orders and lineitem as endless streams
whose changes, added up, are DuckDB's answer after every batch."""

from __future__ import annotations

import math
import subprocess
import sysconfig
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.language.tpch import ARRIVAL, QUERIES, STREAMS, TABLES, endless, sources

import thalweg as tw

SCALE = "0.002"
BATCHES = 4
Row = tuple[Any, ...]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pa.Table]:
    folder = tmp_path_factory.mktemp("tpch")
    command = Path(sysconfig.get_path("scripts")) / "tpchgen-cli"
    subprocess.run([command, "parquet", "-s", SCALE, f"--output-dir={folder}"], check=True, capture_output=True)
    return {name: pq.read_table(folder / f"{name}.parquet").cast(schema) for name, schema in TABLES.items()}


def answer(text: str, tables: dict[str, pa.Table]) -> list[Row]:
    with duckdb.connect(config={"threads": 1}) as db:
        for name, table in tables.items():
            db.register(name, table)
        return db.execute(text).fetchall()


def assert_equal(found: Iterable[Row], wanted: Iterable[Row], *, ordered: bool) -> None:
    """Rows agree; averages of decimals have six digits here and are doubles in DuckDB."""
    one, other = list(found), list(wanted)
    assert len(one) == len(other)
    if not ordered:
        one, other = sorted(one, key=_exact), sorted(other, key=_exact)
    for row, like in zip(one, other, strict=True):
        assert all(map(_same, row, like)), f"{row} is not {like}"


def _exact(row: Sequence[Any]) -> str:
    """What sorts rows alike on both sides: values without digits that may differ, then the rest, coarsely."""
    return repr([v for v in row if not isinstance(v, float | Decimal)] + [f"{float(v):.4g}" for v in row if _number(v)])


def _number(value: Any) -> bool:
    return isinstance(value, float | Decimal)


def _same(a: Any, b: Any) -> bool:
    if (_number(a) or _number(b)) and a is not None and b is not None:
        return math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-6)
    return bool(a == b)


@pytest.mark.parametrize("name", QUERIES)
def test_over_tables(name: str, data: dict[str, pa.Table]) -> None:
    text = QUERIES[name]
    engine = tw.Engine(text, sources(streaming=False), tables={n: t for n, t in data.items() if n in text})
    found = [tuple(r.values()) for r in engine.close().to_pylist()]
    assert_equal(found, answer(text, data), ordered="order by" in text)


@pytest.mark.parametrize("name", [n for n, text in QUERIES.items() if any(s in text for s in STREAMS)])
def test_over_streams(name: str, data: dict[str, pa.Table]) -> None:
    """Q2, Q11 and Q16 read no stream and are answered once."""
    text = endless(QUERIES[name])
    order = np.random.default_rng(1)
    rows = {n: data[n].take(pa.array(order.permutation(data[n].num_rows))) for n in STREAMS}
    static = {n: t for n, t in data.items() if n not in STREAMS}
    engine = tw.Engine(text, sources(streaming=True), tables={n: t for n, t in static.items() if n in text})
    total: Counter[Row] = Counter()
    for batch in range(1, BATCHES + 1):
        changes = []
        for n in engine.streams:
            first, last = (len(rows[n]) * k // BATCHES for k in (batch - 1, batch))
            part = rows[n].slice(first, last - first)
            times = pa.array(np.full(len(part), batch)).cast(pa.timestamp("us"))
            changes.append(engine.push(n, part.append_column(ARRIVAL, times)))
        changes.append(engine.advance(datetime(1970, 1, 1, microsecond=batch + 1)))
        for row in (tuple(r.values()) for table in changes for r in table.to_pylist()):
            total[row[:-2]] += 1 if row[-2] == "insert" else -1
        assert min(total.values(), default=0) >= 0
        seen = {n: t.slice(0, len(t) * batch // BATCHES) for n, t in rows.items()}
        assert_equal(total.elements(), answer(text, {**static, **seen}), ordered=False)
