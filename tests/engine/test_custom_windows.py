"""Windows that a user's function makes: a function that says what RANGE says gives the rows of RANGE."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import thalweg as tw
from thalweg.errors import ThalwegError

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("stay", pa.int64())])
SOURCES = {n: tw.Source(SCHEMA, time="ts", unit="us", lateness="6 microseconds") for n in "ab"}


def five(rows: pa.RecordBatch) -> pa.Array:
    return pc.add(rows["ts"], 6)


def own(rows: pa.RecordBatch) -> pa.Array:
    """Each row says how long it stays; NULL is for ever, and nothing is never."""
    return pc.add(rows["ts"], rows["stay"])


def run(text: str, batches: list[tuple[str, pa.Table]], *, chaos: bool) -> Counter[Any]:
    def make() -> tw.Engine:
        policy = "chaos" if chaos else "auto"
        return tw.Engine(text, SOURCES, functions={"five": five, "own": own}, policy=policy, slice_rows=3)

    engine, out = make(), []
    for k, (name, rows) in enumerate(batches):
        if name in engine.streams:
            out.append(engine.push(name, rows))
        if k % 3 == 2:
            out.append(engine.advance())
            state, engine = engine.snapshot(), make()
            engine.restore(state)
    out.append(engine.close())
    return Counter(tuple(r.values()) for table in out for r in table.to_pylist())


def history(seed: int) -> list[tuple[str, pa.Table]]:
    random = np.random.default_rng(seed)
    batches = []
    for clock in range(0, 60, 4):
        for name in "ab":
            count = int(random.integers(0, 6))
            times = clock + random.integers(0, 7, count)
            stays = [None if s == 9 else int(s) for s in random.integers(0, 10, count)]
            columns = [pa.array(times), pa.array(random.integers(0, 3, count)), pa.array(stays, pa.int64())]
            batches.append((name, pa.table(columns, schema=SCHEMA)))
    return batches


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("form", ["results", "relation", "left"])
def test_a_range_as_a_function(seed: int, form: str) -> None:
    texts = {
        "results": "SELECT a.ts, b.ts AS other FROM a [{}], b [RANGE 3 MICROSECONDS] WHERE a.k = b.k",
        "relation": "SELECT a.k, count(*) AS n FROM a [{}] GROUP BY a.k",
        "left": "SELECT a.ts, b.ts AS other FROM a [RANGE 3 MICROSECONDS] LEFT JOIN b [{}] ON a.k = b.k",
    }
    batches = history(seed)
    wanted = run(texts[form].format("RANGE 5 MICROSECONDS"), batches, chaos=False)
    assert run(texts[form].format("five"), batches, chaos=seed % 2 == 0) == wanted
    assert wanted


@pytest.mark.parametrize("seed", range(6))
def test_rows_that_say_how_long_they_stay(seed: int) -> None:
    batches = history(seed)
    text = "SELECT a.ts, a.stay, b.ts AS other FROM a [own], b [RANGE 3 MICROSECONDS] WHERE a.k = b.k"
    rows = {n: [r for name, t in batches if name == n for r in t.to_pylist()] for n in "ab"}
    wanted: Counter[Any] = Counter()
    for x in rows["a"]:
        for y in rows["b"]:
            moment = max(x["ts"], y["ts"])
            stays = x["stay"] is None or moment < x["ts"] + x["stay"]
            if x["k"] == y["k"] and stays and moment <= y["ts"] + 3:
                wanted[x["ts"], x["stay"], y["ts"]] += 1
    assert run(text, batches, chaos=seed % 2 == 1) == wanted


def test_a_function_that_gives_too_few_ends_is_told() -> None:
    engine = tw.Engine("SELECT a.k FROM a [short]", SOURCES, functions={"short": lambda rows: [1]})
    with pytest.raises(ThalwegError, match="gave 1 ends for 2 rows"):
        engine.push("a", pa.table([[1, 2], [1, 1], [1, 1]], schema=SCHEMA))
