"""Times that can't be: the engine leaves such rows out, counts them, and goes on."""

from __future__ import annotations

import pyarrow as pa
import pytest

import thalweg as tw
from thalweg.engine.gate import Gate
from thalweg.errors import DefinitionError
from thalweg.language.query import Unit
from thalweg.state.times import Clock

INTEGER = pa.int64()
TEXT = "SELECT a.k FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND] WHERE a.k = b.k"


def engine(kind: pa.DataType = INTEGER, unit: Unit | None = "s") -> tw.Engine:
    source = tw.Source(pa.schema([("ts", kind), ("k", pa.int64())]), "ts", unit)
    return tw.Engine(TEXT, {"a": source, "b": source})


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64(), pa.timestamp("s")])
def test_an_impossible_time_is_a_bad_row_and_no_reason_to_stop(kind: pa.DataType) -> None:
    made = engine(kind, None if pa.types.is_timestamp(kind) else "s")
    times = pa.array([1, 2**62, 3, None], pa.int64()).cast(kind)
    made.push("a", pa.table({"ts": times, "k": [1, 2, 3, 4]}))
    found = made.push("b", pa.table({"ts": pa.array([1, 3, 3], pa.int64()).cast(kind), "k": [1, 2, 3]}))
    assert found["k"].to_pylist() == [1, 3]
    assert made.stats()["sources"]["a"]["without time"] == 2
    made.advance()
    assert made.stats()["sources"]["a"]["watermark"] == 3


def test_the_far_past_is_no_time_either() -> None:
    made = engine()
    made.push("a", pa.table({"ts": pa.array([-(2**62), 5], pa.int64()), "k": [1, 2]}))
    assert made.stats()["sources"]["a"]["without time"] == 1


def test_a_source_with_an_integer_time_needs_a_unit() -> None:
    schema = pa.schema([("ts", pa.int64())])
    with pytest.raises(DefinitionError, match="nothing says what it counts"):
        tw.Source(schema, time="ts")
    with pytest.raises(DefinitionError, match="lateness=5 has no unit"):
        tw.Source(schema, time="ts", unit="s", lateness=5)
    with pytest.raises(DefinitionError, match="no unit of time 'minutes'"):
        tw.Source(schema, time="ts", unit="minutes")  # type: ignore[arg-type]
    assert tw.Source(schema, time="ts", unit="s", lateness="5 seconds").lateness == 5_000_000


def test_only_rows_beyond_the_bound_are_refused() -> None:
    gate = Gate(Clock(tw.Source(pa.schema([("ts", pa.int64())]), "ts", "s"), "us"), ahead=10_000_000)
    batch = pa.record_batch({"ts": pa.array([90, 110, 111, None], pa.int64())})
    assert gate.judge(batch, now=100_000_000).column("ts").to_pylist() == [90, 110]
    assert (gate.timeless, gate.ahead_rows, gate.newest) == (1, 1, 110_000_000)
    assert [(why, rows.column("ts").to_pylist()) for why, rows in gate.refused] == [
        ("no usable time", [None]), ("too far ahead", [111]),
    ]  # fmt: skip
    assert gate.judge(batch).num_rows == 3  # without a clock nothing is too far ahead
