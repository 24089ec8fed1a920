"""The watermark rule, lateness and idleness, and batches of several streams taken in at once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import thalweg as tw
from thalweg.engine.schedule import spans, turns
from thalweg.optimize.schedules import Fewest
from thalweg.state.times import Clock

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.int64())])
TEXT = "SELECT a.ts AS a, b.ts AS b FROM a [RANGE 100 MILLISECONDS], b [RANGE 100 MILLISECONDS] WHERE a.k = b.k"
SEED = 15


def engine(text: str = TEXT, *, lateness: int = 0, **options: object) -> tw.Engine:
    source = tw.Source(SCHEMA, time="ts", unit="ms", lateness=f"{lateness} milliseconds")
    return tw.Engine(text, {"a": source, "b": source}, slice_rows=16, **options)  # type: ignore[arg-type]


def rows(times: object, keys: object | None = None) -> pa.Table:
    times = np.asarray(times)
    return pa.table({"ts": times, "k": np.zeros(len(times), np.int64) if keys is None else keys}, schema=SCHEMA)


def watermarks(made: tw.Engine) -> dict[str, int | None]:
    return {name: s["watermark"] for name, s in made.stats()["sources"].items()}


def test_a_watermark_is_the_newest_time_less_the_lateness() -> None:
    made = engine(lateness=10)
    made.push("a", rows([5, 40]))
    made.advance()
    assert watermarks(made) == {"a": 30, "b": None}
    made.push("a", rows([29, 30]))
    assert made.stats()["sources"]["a"]["late"] == 1


def test_an_idle_stream_follows_the_others_and_says_so() -> None:
    waits, goes_on = engine(lateness=10), engine(lateness=10, idle={"b": "50 milliseconds"})
    for made in (waits, goes_on):
        made.push("a", rows([40]))
        made.push("b", rows([5]))
        made.push("a", rows([100]))
        made.advance()
    assert watermarks(waits) == {"a": 90, "b": -5}
    assert watermarks(goes_on) == {"a": 90, "b": 40}
    assert (waits.silent(), goes_on.silent()) == ([], ["b"])
    goes_on.push("b", rows([39, 41, 200]))
    assert goes_on.stats()["sources"]["b"]["late"] == 1
    goes_on.advance()
    assert goes_on.silent() == []


def test_a_watermark_never_goes_back() -> None:
    made = engine()
    made.advance({"a": 50})
    made.advance({"a": 20})
    assert watermarks(made)["a"] == 50
    with pytest.raises(tw.DefinitionError, match="reads no stream 'c'"):
        made.advance({"c": 1})


def test_what_is_heard_elsewhere_moves_a_watermark() -> None:
    made = engine(lateness=5)
    made.take_batch({"a": rows([10])}, newest={"a": 30_000, "b": 20_000})
    assert watermarks(made) == {"a": 25, "b": 15}
    assert made.take_batch({"b": rows([14, 15])}, newest={}).num_rows == 1
    assert made.stats()["sources"]["b"]["late"] == 1


@pytest.mark.parametrize("text", [TEXT, TEXT.replace("a [RANGE 100 MILLISECONDS]", "a [ROWS 20]")])
def test_a_batch_of_several_streams_gives_what_single_pushes_give(text: str) -> None:
    random = np.random.default_rng(SEED)
    at_once, one_by_one = engine(text, lateness=100), engine(text, lateness=100)
    found: list[list[pa.Table]] = [[], []]
    for batch in range(20):
        sent = {
            name: rows(random.integers(batch * 300, batch * 300 + 400, 200), random.integers(0, 20, 200))
            for name in "ab"
        }
        newest = {name: 1000 * int(np.max(t["ts"].to_numpy())) for name, t in sent.items()}
        found[0].append(at_once.take_batch(sent, newest=newest))
        found[1] += [one_by_one.push(name, t) for name, t in sent.items()]
        found[1].append(one_by_one.advance())
    found[0].append(at_once.close())
    found[1].append(one_by_one.close())
    whole = [sorted(pa.concat_tables(tables).to_pylist(), key=repr) for tables in found]
    assert whole[0] == whole[1], f"seed {SEED}"
    assert len(whole[0]) > 1000


def test_a_finite_batch_moves_no_watermark() -> None:
    made = engine()
    made.take_batch({"a": rows([0, 1000, 5]), "b": rows([1000, 1])})
    assert watermarks(made) == {"a": None, "b": None}
    assert made.stats()["results"] == 3
    made.take_batch({"a": rows([2])})
    assert made.stats()["sources"]["a"]["late"] == 0


def test_spans_are_two_slices_long_and_longer_where_few_rows_come() -> None:
    many = [np.arange(10_000)]
    assert list(spans(many, None)) == [None]
    ends = list(spans(many, 400))
    assert ends == [*range(800, 9_999, 800), None]
    assert list(spans([np.array([0, 9_999])], 400)) == [None]
    assert list(spans([], 400)) == [None]


def test_the_input_with_the_fewest_rows_goes_first_and_every_row_once() -> None:
    clock = Clock(tw.Source(SCHEMA, time="ts", unit="ms"), "us")
    sent = {"a": rows(np.arange(3_000)[::-1].copy()), "b": rows(np.arange(0, 3_000, 3))}
    cut = list(turns(sent, {"a": clock, "b": clock}, 100_000, Fewest()))
    assert len(cut) > 3
    assert [name for name, _ in cut[0].rows] == ["b", "a"]
    for name, whole in sent.items():
        parts = [t for turn in cut for n, t in turn.rows if n == name]
        assert pa.concat_tables(parts)["ts"].to_pylist() == sorted(whole["ts"].to_pylist())
    for turn in cut[:-1]:
        assert turn.until is not None
        assert all(max(t["ts"].to_pylist()) * 1000 < turn.until for _, t in turn.rows)


def test_the_plan_is_one_value() -> None:
    made = engine()
    plan = made.plan()
    assert {alias: dict(routes) for alias, routes in plan.routes.items()} == {"a": {"": ("b",)}, "b": {"": ("a",)}}
    assert set(plan.layouts) == {"a", "b"}
    assert not plan.pinned
    made.freeze({"a": ["b"]})
    assert made.plan().pinned == {"a", "b"}
