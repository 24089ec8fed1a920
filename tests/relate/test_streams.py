"""Relations as streams: ISTREAM, DSTREAM, RSTREAM and changes, with and without EVERY, and read through windows again."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.relate.course import (
    Bag,
    Event,
    Row,
    by_instant,
    check,
    random_cuts,
    random_events,
    random_instants,
    run,
)

from thalweg.contract.relation import FOREVER, Changes, Deltas
from thalweg.errors import AggregateError
from thalweg.language.algebra import RESULT_TIME, Emit, Hop, Node, Restream, Single
from thalweg.language.query import Window
from thalweg.relate import operator
from thalweg.relate.arriving import Arriving
from thalweg.relate.emit import arranged
from thalweg.relate.living import Living
from thalweg.state.slice import ALWAYS

SCHEMA = pa.schema([("k", pa.int64()), ("s", pa.string())])
TIME = pa.timestamp("us", tz="UTC")
COLUMNS = (("k", "k"), ("s", "s"))


def bags(events: list[Event]) -> dict[int, Bag]:
    """What lives after each instant that changes."""
    out, bag = {}, Counter[Row]()
    for instant in sorted({t for _, _, t in events}):
        for row, sign, time in events:
            if time == instant:
                bag[row] += sign
        bag = +bag
        out[instant] = Counter(bag)
    return out


def at(events: list[Event], instant: int) -> Bag:
    bag: Bag = Counter()
    for row, sign, time in events:
        if time <= instant:
            bag[row] += sign
    return +bag


def streamed(events: list[Event], kind: str, every: int | None, end: int) -> list[tuple[int, Bag]]:
    """The elements of a stream, by instant."""
    times = sorted({t for _, _, t in events})
    if every is not None:
        real = [t for t in times if t != ALWAYS]
        first = -(-real[0] // every) * every if real else end
        times = [t for t in times if t == ALWAYS] + list(range(first, end, every))
    out, before = [], Counter[Row]()
    for instant in times:
        now = at(events, instant)
        if kind == "rstream":
            found = now if instant != ALWAYS else Counter()
        else:
            found = now - before if kind == "istream" else before - now
        if found:
            out.append((instant, found))
        before = now
    return out


@pytest.mark.parametrize("every", [None, 5])
@pytest.mark.parametrize("kind", ["istream", "dstream", "rstream"])
@pytest.mark.parametrize("seed", range(10))
def test_streams(seed: int, kind: Any, every: int | None) -> None:
    chance = np.random.default_rng([seed, len(kind), every or 0, *kind.encode()])
    events = random_events(chance, SCHEMA, random_instants(chance, 15, table=seed % 2 == 0), rate=1.5)
    node = Emit(SCHEMA, Node(SCHEMA), kind, COLUMNS, every)
    cuts = random_cuts(chance, [events], beyond=12)
    out, _ = run(lambda: operator(node), [events], [SCHEMA], chance, cuts)
    assert all(sign == 1 for _, sign, _ in out)
    assert by_instant(out) == dict(streamed(events, kind, every, cuts[-1]))
    whole, _ = run(lambda: operator(node), [events], [SCHEMA], chance, [cuts[-1]], snapshots=0)
    assert whole == out


@pytest.mark.parametrize("every", [None, 4])
@pytest.mark.parametrize("seed", range(10))
def test_changes_say_what_enters_and_what_leaves(seed: int, every: int | None) -> None:
    chance = np.random.default_rng(seed)
    events = random_events(chance, SCHEMA, random_instants(chance, 15, table=seed % 2 == 0))
    schema = pa.schema([("t", TIME), *SCHEMA, ("_change_type", pa.string()), ("_change_time", TIME)])
    node = Emit(schema, Node(SCHEMA), "changes", (("t", RESULT_TIME), *COLUMNS), every)
    end = max(t for _, _, t in events) + 9
    out, _ = run(lambda: operator(node), [events], [SCHEMA], chance, random_cuts(chance, [events], beyond=9))
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    sums: dict[int, Bag] = defaultdict(Counter)
    for (t, *row, kind, changed), sign, time in out:
        assert sign == 1
        assert t == changed
        assert (None if t is None else (t - epoch).microseconds) == (None if time == ALWAYS else time)
        sums[time][tuple(row)] += 1 if kind == "insert" else -1
    order = [(time, row[-2]) for row, _, time in out]
    assert order == sorted(order), "what leaves goes first"
    gains, losses = (dict(streamed(events, k, every, end)) for k in ("istream", "dstream"))
    for time in {*gains, *losses, *sums}:
        wanted = Counter(gains.get(time, Counter()))
        wanted.subtract(losses.get(time, Counter()))
        assert {r: n for r, n in sums[time].items() if n} == dict(wanted)


def test_three_equal_rows_through_a_window_of_one_row_are_one_row() -> None:
    """`ISTREAM(SELECT k FROM a [ROWS 1])`."""
    schema = pa.schema([("k", pa.int64())])
    living = Living(schema)
    rows = pa.record_batch({"k": [4, 4, 4]})
    living.opened(Deltas(rows, np.arange(3), np.array([1, 2, 3]), np.array([2, 3, FOREVER])))
    emit = operator(Emit(schema, Node(schema), "istream", (("k", "k"),)))
    out = emit.step([living.advance(10)], 10)
    assert (out.rows["k"].to_pylist(), out.time.tolist()) == ([4], [1])


def window_of(chance: np.random.Generator) -> Window:
    kind = ["range", "rows", "partition", "now", "unbounded"][int(chance.integers(5))]
    return Window(kind, int(chance.integers(0, 9)), int(chance.integers(1, 4)), ("s",) if kind == "partition" else ())


def seen(elements: list[Event], window: Window, instant: int) -> Bag:
    """What a window over a stream holds, the plain way."""
    past = [(row, t) for row, n, t in elements for _ in range(n) if t <= instant]
    if window.kind == "range":
        return Counter(r for r, t in past if t >= instant - window.span)
    if window.kind == "now":
        return Counter(r for r, t in past if t == instant)
    if window.kind == "rows":
        return Counter(r for r, _ in past[-window.rows :])
    if window.kind == "partition":
        parts = defaultdict(list)
        for row, _ in past:
            parts[row[1]].append(row)
        return Counter(r for part in parts.values() for r in part[-window.rows :])
    return Counter(r for r, _ in past)


@pytest.mark.parametrize("kind", ["istream", "dstream", "rstream"])
@pytest.mark.parametrize("seed", range(25))
def test_a_stream_of_a_relation_is_read_through_a_window(seed: int, kind: Any) -> None:
    chance = np.random.default_rng([seed, *kind.encode()])
    window, every = window_of(chance), [None, 3][seed % 2]
    events = random_events(chance, SCHEMA, random_instants(chance, 12), rate=1.5)
    cuts = random_cuts(chance, [events], beyond=20)
    emit = Emit(SCHEMA, Node(SCHEMA), kind, COLUMNS, every)
    elements, _ = run(lambda: operator(emit), [events], [SCHEMA], chance, [cuts[-1]])
    node = Restream(SCHEMA, Node(SCHEMA), kind, every, window)
    out, op = run(lambda: operator(node), [events], [SCHEMA], chance, cuts)
    found, before = by_instant(out), Counter[Row]()
    for instant in range(min(cuts[0], 0), cuts[-1]):
        now = seen(elements, window, instant)
        change = Counter(now)
        change.subtract(before)
        assert found.pop(instant, Counter()) == Counter({r: n for r, n in change.items() if n}), f"{window} {instant}"
        before = now
    assert not found
    whole, _ = run(lambda: operator(node), [events], [SCHEMA], chance, [cuts[-1]], snapshots=0)
    assert by_instant(whole) == by_instant(out)
    assert op.size() < 10_000


@pytest.mark.parametrize("seed", range(20))
def test_a_scalar_subquery_has_one_row(seed: int) -> None:
    chance = np.random.default_rng(seed)
    node = Single(SCHEMA, Node(SCHEMA))
    events: list[Event] = []
    there: Row | None = None
    for instant in random_instants(chance, 15, table=seed % 2 == 0):
        if there is not None:
            events.append((there, -1, instant))
            there = None
        if chance.random() < 0.6:
            there = ([None, 1, 2][int(chance.integers(3))], [None, "a"][int(chance.integers(2))])
            if events and events[-1] == (there, -1, instant):
                events.pop()
            else:
                events.append((there, 1, instant))
    check(lambda: operator(node), lambda b: b[0] or Counter([(None, None)]), [events], [SCHEMA], chance, always=True)


def test_a_scalar_subquery_with_two_rows_is_an_error() -> None:
    node = Single(SCHEMA, Node(SCHEMA))
    for rows in ([((1, "a"), 1, 3), ((2, "a"), 1, 3)], [((1, "a"), 2, 3)]):
        with pytest.raises(AggregateError, match="more than one row"):
            run(lambda: operator(node), [rows], [SCHEMA], np.random.default_rng(0), [10])
    swap: list[Event] = [((1, "a"), 1, 3), ((2, "a"), 1, 4), ((1, "a"), -1, 4)]
    out, _ = run(lambda: operator(node), [swap], [SCHEMA], np.random.default_rng(0), [10])
    assert out[-2:] == [((1, "a"), -1, 4), ((2, "a"), 1, 4)]


@pytest.mark.parametrize(("size", "slide"), [(10, 10), (10, 5), (7, 3), (3, 7)])
@pytest.mark.parametrize("seed", range(4))
def test_results_enter_when_their_windows_close(seed: int, size: int, slide: int) -> None:
    chance = np.random.default_rng([seed, size, slide])
    struct = pa.struct([("start", TIME), ("end", TIME)])
    node = Hop(SCHEMA.append(pa.field("w", struct)), Node(SCHEMA), "w", size, slide)
    events = random_events(chance, SCHEMA, random_instants(chance, 15))
    wanted: dict[int, Bag] = defaultdict(Counter)
    moment = {t: datetime.fromtimestamp(t / 1e6, UTC) for t in range(-20, 100)}
    for row, sign, time in events:
        for start in range(-20, 70):
            if sign > 0 and start % slide == 0 and start <= time < start + size:
                span = (("start", moment[start]), ("end", moment[start + size]))
                wanted[start + size][(*row, span)] += sign
    out, op = run(lambda: operator(node), [events], [SCHEMA], chance, random_cuts(chance, [events], beyond=30))
    assert by_instant(out) == wanted
    assert op.size() == 0


@pytest.mark.parametrize("seed", range(6))
def test_a_slide_shows_what_lives_at_multiples(seed: int) -> None:
    chance = np.random.default_rng(seed)
    schema = pa.schema([("k", pa.int64())])
    living = Living(schema, slide=5)
    start = np.sort(chance.integers(0, 50, 60))
    end = start + chance.integers(1, 20, 60)
    keys = chance.integers(0, 3, 60)
    total: Bag = Counter()
    for low in range(0, 90, 9):
        now = np.flatnonzero((start >= low) & (start < low + 9))
        living.opened(Deltas(pa.record_batch({"k": keys[now]}), now, start[now], end[now]))
        given = living.advance(low + 9)
        assert (given.time % 5 == 0).all()
        for row, sign in zip(given.rows["k"].to_pylist(), given.sign.tolist(), strict=True):
            total[row] += sign
        look = (low + 8) // 5 * 5
        assert +total == Counter(keys[(start <= look) & (look < end)].tolist())
    assert living.size() == 0


def test_results_arrive_once_each() -> None:
    arriving = Arriving(SCHEMA)
    rows = pa.record_batch({"k": [1, 1, 2], "s": ["a", "a", None]})
    arriving.opened(Deltas(rows, np.arange(3), np.array([5, 6, 4]), np.array([6, 7, FOREVER])))
    parts, fresh = arriving.snapshot(), Arriving(SCHEMA)
    fresh.restore(parts)
    first: Changes = fresh.advance(6)
    assert (first.rows["k"].to_pylist(), first.sign.tolist(), first.time.tolist()) == ([2, 1], [1, 1], [4, 5])
    assert fresh.advance(7).rows["k"].to_pylist() == [1]
    assert fresh.size() == 0


def test_order_and_limit_of_a_whole_answer() -> None:
    schema = pa.schema([("x", pa.float64()), ("s", pa.string())])
    rows = pa.table([[1.0, None, float("nan"), -2.0, 1.0], ["b", "a", "c", None, "a"]], schema=schema)
    node = Emit(schema, Node(schema), "results", (), order=(("x", True, True), ("s", False, False)))
    assert [str(v) for v in arranged(rows, node)["x"].to_pylist()] == ["None", "nan", "1.0", "1.0", "-2.0"]
    assert arranged(rows, node)["s"].to_pylist() == ["a", "c", "a", "b", None]
    node = Emit(schema, Node(schema), "results", (), order=(("s", True, False),), limit=2, offset=1)
    assert arranged(rows, node)["s"].to_pylist() == ["b", "a"]
