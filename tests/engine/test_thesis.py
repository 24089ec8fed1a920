"""The queries that "Adaptive Query Processing in Data Stream Systems" prints, and Linear Road's views.

Babu's thesis, sections 1.3, 2.1, 2.2, 4.1, 4.7, 6.1, 6.3 and 6.11. Each runs on random rows under the policy `chaos`,
with a restart, and DuckDB answers it: over the whole history with lifetimes where the answer is a stream of results, and
over the windows' contents at every instant at which anything can change where it is a relation. Where the text is not
the printed one: streams of the experiment have the names W1 and W2, and `lookup(P.destAddr, T)` is `lookup(P.destAddr)`,
since a table can't be an argument of a function. CarExitStr and NegTollStr are ours, after Linear Road.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import thalweg as tw

COLUMNS = {
    "S": "A B C", "S0": "A", "S1": "A B", "S2": "A B C", "S3": "C D", "W1": "A", "W2": "A", "C": "pid size", "B": "pid",
    "O": "pid", "CarStr": "cid xpos sid",
}  # fmt: skip
SECOND, HIGH = 10**6, 2**60
FIXTURES = Path(__file__).parents[1] / "language" / "fixtures" / "linearroad.sql"
WINDOW = re.compile(r"\b(\w+) \[([^\]]+)\](?= *(\w*|[,)]))")
Data = dict[str, list[tuple[int, ...]]]

FILTERS = """
Select  Istream(*)
From    S [Rows Unbounded]
Where   S.A > 10 and S.B < 20 and S.C > 40
"""
SHORT = """
Select  *
From    S
Where   S.A > 10 and S.B < 20 and S.C > 40
"""
JOIN = """
Select  *
From    S1 [Rows 1000], S2 [Range 2 Minutes]
Where   S1.A = S2.A and S1.A > 10 and S1.B < 20
"""
RANGES = """
Select  *
From     S1  [Range 5 Minutes],  S2  [Range 10 Minutes]
Where    S1.A = S2.A
"""
CHAIN = """
Select  *
From    S1 [Rows Unbounded], S2 [Rows Unbounded], S3 [Rows 1]
Where   S1.B = S2.B and S2.C = S3.C and S3.D > 10
"""
GROUP = """
Select    A, Max(B)
From      S1 [Rows 200]
Group By  A
"""
TRAFFIC = """
Select  sum(C.size)
From    C [Range 10 minutes], B [Range 10 minutes], O [Range 10 minutes]
Where   C.pid = B.pid and B.pid = O.pid
"""
EXPERIMENT = """
Select  *
From    S0
Where   S0 in (Select  *
                From    W1 [Rows 10,000])  and
        S0 in (Select  *
                From    W2 [Rows 10,000])
"""
ACCSEG = """
Select distinct sid From
  (Select cid, sid From
    (CarStr [Partition By cid Rows 1]) as LastRep,
    (Select distinct cid From
      CarStr [Range 30 seconds]) as CurActiveCars
   Where LastRep.cid = CurActiveCars.cid)
 as CurCarSeg,
 (Select cid
  From CarStr [Partition By cid Rows 4]
  Group By cid
  Having count (distinct xpos) = 1 and count(*) = 4)
 as AccCars
Where CurCarSeg.cid = AccCars.cid
"""


def linear_road(name: str) -> str:
    """A view of Linear Road, as the language's own fixtures write it."""
    found = re.search(rf"-- case: {name}:.*?\n(.*?)-- gives", FIXTURES.read_text(), re.S)
    assert found is not None
    return found[1]


def rows_of(text: str, draw: random.Random, count: int, seconds: int, values: dict[str, int]) -> Data:
    """Rows in the order of their times, with ties, for every stream that a text reads; the time comes last."""
    data = {}
    for name in re.findall(r"(\w+) +\[", text):
        columns = COLUMNS[name].split()
        times = sorted(draw.randrange(seconds) * SECOND for _ in range(count))
        data[name] = [(*(draw.randrange(values.get(c, 6)) for c in columns), t) for t in times]
    return data


def reports(draw: random.Random) -> Data:
    """Cars that stand, drive and fall silent; and what they paid."""
    rows = []
    for car in range(5):
        time, place = draw.randrange(40), draw.randrange(300)
        while time < 260:
            rows.append((car, place, place // 60, time * SECOND))
            time += draw.choice((0, 5, 10, 10, 29, 30, 31, 70))
            place += draw.choice((0, 0, 0, 0, 40))
    tolls = [(draw.randrange(6), draw.randrange(1, 5), draw.randrange(400) * SECOND) for _ in range(25)]
    return {"CarStr": sorted(rows, key=lambda r: r[-1]), "C": sorted(tolls, key=lambda r: r[-1])}


def run(text: str, data: Data, draw: random.Random) -> pa.Table:
    """What the engine makes of the rows, in batches of one to many, in the order of time, with a restart."""
    i64 = pa.int64()
    schemas = {name: pa.schema([(c, i64) for c in (*COLUMNS[name].split(), "t")]) for name in data}
    sources = {name: tw.Source(schema, time="t", unit="us") for name, schema in schemas.items()}

    def make() -> tw.Engine:
        return tw.Engine(text, sources, policy="chaos", seed=7)

    engine, found = make(), []
    waiting = {name: list(rows) for name, rows in data.items()}
    restart = draw.randrange(1, 4)
    while any(waiting.values()):
        name = min((n for n in waiting if waiting[n]), key=lambda n: waiting[n][0][-1])
        after = min((rows[0][-1] for n, rows in waiting.items() if rows and n != name), default=HIGH)
        cut = draw.choice((1, 3, 50, 500))
        batch = [r for r in waiting[name][:cut] if r[-1] <= after]
        del waiting[name][: len(batch)]
        found.append(
            engine.push(name, pa.table([pa.array(c, i64) for c in zip(*batch, strict=True)], schema=schemas[name]))
        )
        if draw.random() < 0.3:
            found.append(engine.advance())
        restart -= 1
        if not restart:
            state, engine = engine.snapshot(), make()
            engine.restore(state)
    return pa.concat_tables([*found, engine.close()])


def database(data: Data) -> duckdb.DuckDBPyConnection:
    db = duckdb.connect(config={"threads": 1})
    for name, rows in data.items():
        columns = [*COLUMNS[name].split(), "t", "arrival"]
        numbered = zip(*[(*r, n) for n, r in enumerate(rows)], strict=True)
        table = pa.table([pa.array(v, pa.int64()) for v in numbered], names=columns)
        db.register("given", table)
        db.execute(f'CREATE TABLE "{name}" AS SELECT * FROM given')
        db.unregister("given")
    return db


def micros(number: str, unit: str) -> int:
    return int(number) * (60 if unit.lower().startswith("minute") else 1) * SECOND


def lives(name: str, window: str) -> str:
    """A stream's rows with their lifetimes in its window: SQL."""
    words = window.lower().replace(",", "").split()
    if words[0] == "range":
        end = f"t + {micros(words[1], words[2]) + 1}"
    elif words[-1] == "unbounded":
        end = str(HIGH)
    else:
        by = "PARTITION BY cid " if words[0] == "partition" else ""
        end = f"coalesce(lead(t, {words[-1]}) OVER ({by}ORDER BY t, arrival), {HIGH})"
    return f'(SELECT * EXCLUDE (arrival), t AS s_, {end} AS e_ FROM "{name}")'


def at(text: str, instant: int) -> str:
    """A query over the windows' contents at an instant."""

    def content(found: re.Match[str]) -> str:
        inside = (
            f"(SELECT * EXCLUDE (s_, e_) FROM {lives(found[1], found[2])} WHERE s_ <= {instant} AND {instant} < e_)"
        )
        return inside if found[3] in (")", "as") else f'{inside} AS "{found[1]}"'

    return WINDOW.sub(content, text.replace("Select cid, sid", "Select LastRep.cid, sid"))


def instants(text: str, data: Data) -> list[int]:
    """When anything can change."""
    found = {r[-1] for rows in data.values() for r in rows}
    spans = [micros(n, unit) for n, unit in re.findall(r"(?i)range (\d+) (\w+)", text)]
    return sorted({t + more for t in found for more in (0, *(s + 1 for s in spans))})


def bag(rows: Any) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(r) for r in rows)


def added_up(changes: pa.Table, instant: int) -> Counter[tuple[Any, ...]]:
    total: Counter[tuple[Any, ...]] = Counter()
    for row in changes.to_pylist():
        *values, kind, time = row.values()
        if time is None or time <= instant:
            total[tuple(values)] += 1 if kind == "insert" else -1
    return Counter({r: n for r, n in total.items() if n})


def values(table: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(r.values()) for r in table.to_pylist()]


@pytest.mark.parametrize(
    "text", [pytest.param(FILTERS, marks=pytest.mark.long, id="whole"), pytest.param(SHORT, id="short")]
)
def test_filters(text: str) -> None:
    draw = random.Random(1)
    data = rows_of("S [", draw, 300, 100, {"A": 30, "B": 40, "C": 80})
    wanted = database(data).execute('SELECT * EXCLUDE (arrival) FROM "S" WHERE A > 10 AND B < 20 AND C > 40').fetchall()
    assert len(wanted) > 20
    assert bag(values(run(text, data, draw))) == bag(wanted)


@pytest.mark.parametrize(
    ("text", "count", "seconds"),
    [pytest.param(JOIN, 1300, 1500, marks=pytest.mark.long), (RANGES, 80, 1800), (CHAIN, 60, 100)],
    ids=["join", "ranges", "chain"],
)
def test_joins(text: str, count: int, seconds: int) -> None:
    """Every combination that lives together, once."""
    draw = random.Random(2)
    spread = {"A": 60, "B": 40} if text is JOIN else {"D": 20}
    data = rows_of(text, draw, count, seconds, spread)
    named = dict(re.findall(r"(\w+) +\[([^\]]+)\]", text))
    entries = ", ".join(f"{lives(n, w)} AS {n}" for n, w in named.items())
    together = f"greatest({', '.join(f'{n}.s_' for n in named)}) < least({', '.join(f'{n}.e_' for n in named)})"
    kept = ", ".join(f"{n}.* EXCLUDE (s_, e_)" for n in named)
    where = text.partition("Where")[2]
    wanted = database(data).execute(f"SELECT {kept} FROM {entries} WHERE {where} AND {together}").fetchall()
    every = database(data).execute(f"SELECT {kept} FROM {entries} WHERE {where}").fetchall()
    assert 100 < len(wanted) < len(every), "the windows matter"
    assert bag(values(run(text, data, draw))) == bag(wanted)


@pytest.mark.parametrize(
    ("text", "count", "seconds"), [(GROUP, 300, 250), (TRAFFIC, 24, 1800)], ids=["group", "traffic"]
)
def test_aggregates_at_every_instant(text: str, count: int, seconds: int) -> None:
    draw = random.Random(3)
    data = rows_of(text, draw, count, seconds, {"B": 1000, "size": 100})
    check_relation(text, data, draw)


def check_relation(text: str, data: Data, draw: random.Random) -> None:
    db, changes = database(data), run(text, data, draw)
    seen = set()
    for instant in instants(text, data):
        wanted = bag(db.execute(at(text, instant)).fetchall())
        assert added_up(changes, instant) == wanted, instant
        seen.add(frozenset(wanted.items()))
    assert len(seen) > 5, "the answer changes"


@pytest.mark.long
def test_the_experiment_query() -> None:
    """Windows of 10,000 rows: a row leaves when 10,000 others have come."""
    draw = random.Random(4)
    data = {n: [(draw.randrange(9_000), t // 4) for t in range(10_600)] for n in ("W1", "W2")}
    data["S0"] = [(draw.randrange(9_000), t) for t in range(2_000, 2_650)]
    found = values(run(EXPERIMENT, data, draw))
    parts = " AND ".join(
        f"EXISTS (SELECT 1 FROM {lives(n, 'rows 10000')} w WHERE w.A = s.A AND w.e_ > s.t)" for n in ("W1", "W2")
    )  # fmt: skip
    wanted = database(data).execute(f'SELECT A, t FROM "S0" s WHERE {parts}').fetchall()
    ever = " AND ".join(f'A IN (SELECT A FROM "{n}")' for n in ("W1", "W2"))
    (most,) = database(data).execute(f'SELECT count(*) FROM "S0" WHERE {ever}').fetchone() or (0,)
    assert 100 < len(wanted) < most, "the windows matter"
    assert bag(found) == bag(wanted)


def test_intrusion_detection() -> None:
    """The thesis leaves out most of both patterns; `lookup` finds an address in table T."""
    blocked, patterns = {"10.0.0.1", "10.0.0.7"}, ("0xa0f8", "0x71eb")
    text = f"""
    Select  *
    From    Packets P
    Where   lookup(P.destAddr) = true and match(P.data, '{patterns[0]}') = true and
            match(P.data, '{patterns[1]}') = true
    """
    draw = random.Random(5)
    schema = pa.schema({"destAddr": pa.string(), "data": pa.string(), "t": pa.int64()})
    rows = [
        (f"10.0.0.{draw.randrange(9)}", "-".join(draw.choice((*patterns, "0xcc")) for _ in range(4)), t) for t in range(400)
    ]  # fmt: skip
    functions = {"lookup": lambda a: a in blocked, "match": lambda data, pattern: pattern in data}
    engine = tw.Engine(text, {"Packets": tw.Source(schema, time="t", unit="us")}, functions=functions, policy="chaos")
    found = [
        engine.push("Packets", pa.table(list(zip(*rows[k : k + 40], strict=True)), schema=schema))
        for k in range(0, 400, 40)
    ]
    wanted = [r for r in rows if r[0] in blocked and all(p in r[1] for p in patterns)]
    assert len(wanted) > 10
    assert bag(values(pa.concat_tables([*found, engine.close()]))) == bag(wanted)


@pytest.mark.parametrize("seed", [0, *(pytest.param(s, marks=pytest.mark.long) for s in range(1, 5))])
@pytest.mark.parametrize("view", ["CurCarSeg", "AccSeg"])
def test_views_of_linear_road_at_every_instant(view: str, seed: int) -> None:
    draw = random.Random(seed)
    data = {"CarStr": reports(draw)["CarStr"]}
    check_relation(ACCSEG if view == "AccSeg" else linear_road(view), data, draw)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("view", ["CarExitStr", "NegTollStr"])
def test_streams_of_linear_road(view: str, seed: int) -> None:
    """Plain Python, instant by instant: who stopped reporting now, where it reported last, what it paid lately."""
    draw = random.Random(seed)
    data = reports(draw)
    wanted: Counter[tuple[Any, ...]] = Counter()

    def active(now: int) -> set[int]:
        return {car for car, _, _, t in data["CarStr"] if now - 30 * SECOND <= t <= now}

    for now in instants("RANGE 30 SECONDS", {"CarStr": data["CarStr"]}):
        for car in active(now - 1) - active(now):
            if view == "CarExitStr":
                last = [r for r in data["CarStr"] if r[0] == car and r[-1] <= now][-1]
                wanted[car, last[2]] += 1
            else:
                wanted.update(
                    (car, -size) for who, size, t in data["C"] if who == car and now - 300 * SECOND <= t <= now
                )
    if view == "CarExitStr":
        del data["C"]
    assert wanted.total() > 5
    assert bag(values(run(linear_road(view), data, draw))) == wanted
