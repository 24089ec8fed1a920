"""Groups by a time window that take rows as they come give what groups give that wait for the close."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import thalweg as tw
from thalweg.engine import relations
from thalweg.engine.engine import Engine
from thalweg.errors import AggregateError
from thalweg.relate.closing import Closing
from thalweg.relate.early import early

SCHEMA = pa.schema({"ts": pa.timestamp("us", "UTC"), "k": pa.int64(), "v": pa.int64(), "x": pa.float64(),
                    "d": pa.decimal128(9, 2), "w": pa.string()})  # fmt: skip
SOURCES = {
    "s": tw.Source(SCHEMA, time="ts", lateness="2 seconds"),
    "t": tw.Source(SCHEMA, time="ts", lateness="2 seconds"),
}
WINDOW = "window(result_time, '10 seconds', '4 seconds')"
ALL = (
    "count(*) AS a, count(v) AS b, sum(v) AS c, avg(d) AS e, sum(x) AS f, min(w) AS g, max(x) AS h, stddev(x) AS i, "
    "count(DISTINCT v) AS j, sum(DISTINCT d) AS l, approx_count_distinct(w) AS m"
)
QUERIES = {
    "all": f"SELECT {WINDOW} AS at, k, {ALL} FROM s GROUP BY {WINDOW}, k",
    "having": f"SELECT {WINDOW} AS at, sum(v) AS n FROM s GROUP BY {WINDOW} HAVING count(*) > 20",
    "behind a join": f"SELECT {WINDOW} AS at, s.w, max(t.v) AS m, count(DISTINCT t.w) AS n FROM s [RANGE 3 SECONDS], "
    f"t [RANGE 2 SECONDS] WHERE s.k = t.k GROUP BY {WINDOW}, s.w",
    "computed": f"SELECT {WINDOW} AS at, upper(w) AS u, min(v + k) AS n FROM s GROUP BY {WINDOW}, upper(w)",
}
WAITING = {
    "in order": f"SELECT {WINDOW} AS at, collect_list(v) AS l FROM s GROUP BY {WINDOW}",
    "first": f"SELECT {WINDOW} AS at, k, first(v) AS a, count(*) AS n FROM s GROUP BY {WINDOW}, k",
}


def batches(seed: int) -> list[tuple[str, pa.Table]]:
    rng = np.random.default_rng(seed)
    found = []
    for n in range(30):
        for name in ("s", "t"):
            size = int(rng.integers(0, 25))

            def some(values, size=size):
                return pa.array(values, mask=rng.random(size) < 0.1)

            times = np.sort(rng.integers(n * 10**6 - 10**6, n * 10**6 + 10**6, size))
            rows = pa.table({
                "ts": pa.array(times, pa.int64()).cast(SCHEMA.field("ts").type), "k": some(rng.integers(0, 3, size)),
                "v": some(rng.integers(-5, 5, size)), "x": some(rng.choice([0.1, -0.0, np.nan, 1e300, 3.5], size)),
                "d": some(rng.integers(-500, 500, size)).cast(pa.decimal128(21, 2)),
                "w": some(np.array([f"w{i}" for i in rng.integers(0, 6, size)], dtype=object)),
            })  # fmt: skip
            found.append((name, rows.cast(SCHEMA)))
    return found


def outcome(text: str, seed: int, *, restarts: bool) -> tuple[list[Counter], int]:
    """The rows of every step, and the most rows that operators kept."""
    engine, out, most = Engine(text, SOURCES), [], 0
    for k, (name, rows) in enumerate(batches(seed)):
        if name in engine.streams:
            found = pa.concat_tables([engine.push(name, rows), engine.advance()])
            out.append(Counter(map(repr, found.to_pylist())))
            most = max(most, sum(engine.stats()["operators"].values()))
        if restarts and k % 7 == 0:
            state = engine.snapshot()
            engine = Engine(text, SOURCES)
            engine.restore(state)
    out.append(Counter(map(repr, engine.close().to_pylist())))
    return out, most


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", QUERIES)
def test_early_groups_give_the_same_rows_at_the_same_time(name, seed, restarts, monkeypatch):
    ahead, _ = outcome(QUERIES[name], seed, restarts=restarts)
    monkeypatch.setattr(relations, "early", lambda roots, nodes: set())
    waited, _ = outcome(QUERIES[name], seed, restarts=False)
    assert ahead == waited
    assert sum(map(len, ahead)) > 5


def test_groups_are_kept_instead_of_rows(monkeypatch):
    _, groups = outcome(QUERIES["having"], 0, restarts=False)
    monkeypatch.setattr(relations, "early", lambda roots, nodes: set())
    _, rows = outcome(QUERIES["having"], 0, restarts=False)
    assert groups * 5 < rows


TEN = "window(result_time, '10 seconds')"
PLAIN = pa.schema([("ts", pa.int64()), ("v", pa.int64())])
INTEGERS = {"s": tw.Source(PLAIN, time="ts", unit="s")}


@pytest.mark.parametrize("what", ["", "DISTINCT "])
@pytest.mark.parametrize("size", [1, 2, 4])
def test_a_sum_out_of_range_on_the_way_may_come_back(size, what):
    times, values = [1, 2, 3, 20], [2**63 - 1, 5, -10, 1]
    engine, found = Engine(f"SELECT sum({what}v) AS n FROM s [NOW] GROUP BY {TEN}", INTEGERS), []
    for k in range(0, 4, size):
        rows = pa.table([times[k : k + size], values[k : k + size]], schema=PLAIN)
        found += [engine.push("s", rows), engine.advance()]
    found.append(engine.close())
    assert pa.concat_tables(found)["n"].to_pylist() == [2**63 - 6, 1]


def test_a_sum_out_of_range_at_the_close_raises():
    engine = Engine(f"SELECT sum(v) AS n FROM s [NOW] GROUP BY {TEN}", INTEGERS)
    engine.push("s", pa.table([[1, 2], [2**63 - 1, 5]], schema=PLAIN))
    engine.advance()
    with pytest.raises(AggregateError, match="sum overflows"):
        engine.close()


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("of", ["v", "CAST(v AS STRING)", "CAST(v AS DOUBLE)", "CAST(v AS DECIMAL(30, 2))"])
def test_a_group_keeps_one_value_of_a_min_or_max(of, restarts):
    text = f"SELECT {TEN} AS at, v % 2 AS k, min({of}) AS lo, max({of}) AS hi FROM s [NOW] GROUP BY {TEN}, v % 2"
    rng, wanted, found = np.random.default_rng(3), {}, []
    engine = Engine(text, INTEGERS)
    for k in range(40):
        values = rng.integers(-(1 << 40), 1 << 40, 100)
        found.append(engine.push("s", pa.table([np.full(100, k), values], schema=PLAIN)))
        found.append(engine.advance())
        for v in values.tolist():
            value = str(v) if "STRING" in of else v
            known = wanted.setdefault((k // 10, v % 2 if v >= 0 else -(-v % 2)), [value, value])
            known[:] = min(known[0], value), max(known[1], value)
        (group,) = [op for op in engine.runner.relations.operators.values() if isinstance(op, Closing)]
        groups = 3 * 2  # odd, even, and odd below zero, in a window or at its border in two
        assert group.size() <= 3 * groups
        if restarts:
            state = engine.snapshot()
            engine = Engine(text, INTEGERS)
            engine.restore(state)
    found.append(engine.close())
    got = {(r["at"]["start"] // 10, r["k"]): [r["lo"], r["hi"]] for t in found for r in t.to_pylist()}
    assert got == wanted


def test_nothing_is_left_of_windows_that_closed():
    engine = Engine(QUERIES["all"], SOURCES)
    (group,) = [op for op in engine.runner.relations.operators.values() if isinstance(op, Closing)]
    for name, rows in batches(1):
        if name == "s":
            engine.push(name, rows)
            engine.advance()
    assert group.size() > 0
    engine.close()
    assert group.size() == 0


@pytest.mark.parametrize("name", WAITING)
def test_what_needs_its_rows_at_the_close_waits(name):
    engine = Engine(WAITING[name], SOURCES)
    program = engine.runner.relations
    assert not early(program.roots, program.nodes)
    found, _ = outcome(WAITING[name], 0, restarts=True)
    assert sum(map(len, found)) > 5
