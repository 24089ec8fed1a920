"""Results as they are written: every width of values, NULLs that come late, text, and many results a row."""

from __future__ import annotations

import resource
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import thalweg as tw
from thalweg.execute.kernels.gather import gather
from thalweg.state.columns import address

VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i8": (pa.int8(), [-1, 2, None, 3]),
    "i16": (pa.int16(), [-300, 2, None, 3]),
    "i32": (pa.int32(), [1 << 20, -2, None, 3]),
    "i64": (pa.int64(), [1 << 40, -2, None, 3]),
    "f64": (pa.float64(), [0.5, float("inf"), None, -0.0]),
    "flag": (pa.bool_(), [True, False, None, True]),
    "long": (pa.decimal128(30, 2), [Decimal("12345678901234567890.12"), Decimal("-1.00"), None, Decimal("0.00")]),
    "odd": (pa.binary(3), [b"abc", b"xyz", None, b"---"]),
    "text": (pa.string(), ["", "a longer piece of text", None, "z"]),
    "list": (pa.list_(pa.int64()), [[], [1, 2], None, [3]]),
}
SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.int64()), *((name, dtype) for name, (dtype, _) in VALUES.items())])


def rows(first: int, *, nulls: bool) -> pa.Table:
    columns: dict[str, Any] = {"ts": list(range(first, first + 4)), "k": [1, 2, 1, 2]}
    for name, (_, values) in VALUES.items():
        columns[name] = [values[0] if v is None and not nulls else v for v in values]
    return pa.table(columns, SCHEMA)


@pytest.mark.parametrize("room", [1, 3, 1 << 14])
def test_values_come_out_as_they_went_in(room: int) -> None:
    """NULLs come with the second batch only: what was written before has none."""
    chosen = ", ".join(f"{a}.{name} AS {a}_{name}" for a in "ab" for name in VALUES)
    text = f"SELECT a.ts AS x, b.ts AS y, {chosen} FROM a [RANGE 99 SECONDS], b [RANGE 99 SECONDS] WHERE a.k = b.k"
    source = tw.Source(SCHEMA, "ts", "ms")
    engine = tw.Engine(text, {"a": source, "b": source}, buffer=room)
    pushed: dict[str, list[dict[str, Any]]] = {"a": [], "b": []}
    found: list[pa.RecordBatch] = []
    for first, nulls in ((0, False), (4, True), (8, False)):
        for name in "ab":
            table = rows(first, nulls=nulls)
            pushed[name] += table.to_pylist()
            engine.push(name, table, into=found.append)
    assert max(b.num_rows for b in found) <= room
    for batch in found:
        batch.validate(full=True)
    expected = [
        {"x": a["ts"], "y": b["ts"], **{f"{s}_{n}": r[n] for s, r in (("a", a), ("b", b)) for n in VALUES}}
        for a in pushed["a"] for b in pushed["b"] if a["k"] == b["k"]
    ]  # fmt: skip
    got = pa.Table.from_batches(found).to_pylist()
    assert sorted(got, key=lambda r: (r["x"], r["y"])) == sorted(expected, key=lambda r: (r["x"], r["y"]))


def test_results_outlive_what_comes_after_them() -> None:
    """Nothing that was handed on points into a buffer that is written again."""
    text = "SELECT a.ts AS x, b.ts AS y FROM a [RANGE 99 SECONDS], b [RANGE 99 SECONDS] WHERE a.k = b.k"
    source = tw.Source(pa.schema([("ts", pa.int64()), ("k", pa.int64())]), "ts", "ms")
    engine = tw.Engine(text, {"a": source, "b": source}, buffer=8)
    kept = []
    for t in range(40):
        for name in "ab":
            kept.append(engine.push(name, pa.table({"ts": [t, t], "k": [t % 3, t % 3]})))
    got = sorted((r["x"], r["y"]) for table in kept for r in table.to_pylist())
    assert got == sorted((x, y) for x in range(40) for y in range(40) if x % 3 == y % 3 for _ in range(4))


def test_a_hundred_results_a_row_need_no_memory() -> None:
    text = "SELECT a.ts AS x, b.ts AS y, b.name FROM a [RANGE 99 SECONDS], b [RANGE 99 SECONDS] WHERE a.k = b.k"
    schema = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("name", pa.string())])
    source, count, most = tw.Source(schema, "ts", "ms"), 2_000, 0
    engine = tw.Engine(text, {"a": source, "b": source}, policy="written")
    table = pa.table({"ts": np.arange(count), "k": np.arange(count) % 20, "name": [f"n{k}" for k in range(count)]})
    engine.push("a", table)
    seen = 0

    def into(batch: pa.RecordBatch) -> None:
        nonlocal seen, most
        seen += batch.num_rows
        most = max(most, pa.total_allocated_bytes())

    engine.push("b", table.slice(0, 100), into=into)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    engine.push("b", table.slice(100), into=into)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert seen == count * 100
    assert grown < 16_384, f"{grown} kB more for {seen} results of at least 24 bytes"


def test_the_kernel_gathers_what_numpy_takes() -> None:
    seed = int(np.random.default_rng().integers(1 << 30))
    print("seed", seed)
    random = np.random.default_rng(seed)
    numbers = np.ascontiguousarray(random.integers(0, 50, (37, 4)))
    sources = [random.integers(0, 256, (50, width), np.uint8) for width in (1, 2, 4, 8, 16)]
    targets = [np.zeros((60, s.shape[1]), np.uint8) for s in sources]
    plain = np.zeros(60, np.int64)
    lines = [(k % 4, address(s), s.shape[1], address(t)) for k, (s, t) in enumerate(zip(sources, targets, strict=True))]
    gather(numbers, np.array([*lines, (2, 0, 8, address(plain))], np.int64), 11)
    for k, (source, target) in enumerate(zip(sources, targets, strict=True)):
        assert (target[11:48] == source[numbers[:, k % 4]]).all()
        assert not target[:11].any()
        assert not target[48:].any()
    assert (plain[11:48] == numbers[:, 2]).all()
