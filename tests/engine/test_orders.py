"""Pinned orders and what windows need: both from outside the engine, neither may change an answer."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest

import thalweg as tw
from thalweg import Engine
from thalweg.language import Source
from thalweg.language.bind import bind

TEXT = """SELECT a.ts x, b.ts y, c.ts z FROM a [RANGE 3 SECONDS], b [RANGE 1 SECOND], c [RANGE 2 SECONDS]
          WHERE a.k = b.k AND b.j = c.j"""
SCHEMA = pa.schema([("ts", pa.timestamp("ms")), ("k", pa.int64()), ("j", pa.int64())])
SPANS = {"a": 3000, "b": 1000, "c": 2000}
SEED = 8


def engine(**options) -> Engine:
    return Engine(bind(TEXT, {s: Source(SCHEMA, time="ts", unit="ms") for s in "abc"}), slice_rows=16, **options)


def batches(count: int = 6, rows: int = 300):
    draw = np.random.default_rng(SEED)
    for n in range(count):
        for s in "abc":
            times = np.sort(draw.integers(n * 1500, (n + 1) * 1500, rows))
            yield (
                s,
                n,
                times,
                pa.record_batch(
                    [pa.array(times, pa.timestamp("ms")), draw.integers(0, 40, rows), draw.integers(0, 40, rows)],
                    schema=SCHEMA,
                ),
            )


def run(made: Engine) -> list[tuple]:
    out = []
    for s, n, _, batch in batches():
        out += made.push(s, batch).to_pylist()
        if s == "c":
            made.advance(pa.scalar((n + 1) * 1500, pa.timestamp("ms")).as_py())
    return sorted(tuple(r.values()) for r in out)


def test_every_pinned_order_gives_the_same_answer():
    expected = run(engine(policy="written"))
    assert expected, f"seed {SEED}"
    for order in itertools.permutations("ac"):
        made = engine(policy="chaos")
        made.freeze({"b": list(order)})
        assert run(made) == expected
        assert made.frozen["b"].named(list("ac")) == " → ".join(order)
        assert set(made.frozen) == {"a", "b", "c"}  # the others are pinned as they were
        made.freeze()
        assert made.frozen["b"].named(list("ac")) == " → ".join(order)
        made.thaw()
        assert not made.frozen


def test_an_order_that_cannot_be_is_refused():
    with pytest.raises(tw.DefinitionError, match="no order"):
        engine().freeze({"a": ["c", "b"]})  # nothing connects a and c
    with pytest.raises(tw.DefinitionError, match="no operator 'd'"):
        engine().freeze({"a": ["d", "b"]})


def test_needed_rows_are_those_that_a_tuple_may_still_meet():
    made = engine(policy="written")
    seen: dict[str, list[int]] = {s: [] for s in "abc"}
    for s, n, times, batch in batches():
        made.push(s, batch)
        seen[s] += times.tolist()
        if s != "c":
            continue
        mark = (n + 1) * 1500
        made.advance(pa.scalar(mark, pa.timestamp("ms")).as_py())
        expected = {a: sum(t + SPANS[a] >= mark for t in seen[a]) for a in "abc"}
        assert made.needed() == expected, f"seed {SEED}"
        stored = {a: v["stored"] for a, v in made.stats()["inputs"].items()}
        assert all(expected[a] <= stored[a] for a in "abc")
