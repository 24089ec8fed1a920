"""The table of the SQL reference is true: what it calls supported runs on the engine, the rest is refused as it says."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import thalweg as tw

PAGE = Path(__file__).parents[2] / "docs" / "sql.md"
ROWS = re.findall(r"^\| ([^|]+) \| `(.+)` \| (yes|no: .*) \|$", PAGE.read_text(), re.M)
UTC = pa.timestamp("us", "UTC")
SOURCES = {
    "flights": tw.Source(
        pa.schema(
            {"ts": UTC, "flight": pa.int32(), "origin": pa.string(), "tailnum": pa.string(), "delay": pa.int32()}
        ),
        time="ts",
    ),
    "weather": tw.Source(pa.schema({"ts": UTC, "origin": pa.string(), "wind": pa.float64()}), time="ts"),
    "planes": tw.Source(pa.schema({"tailnum": pa.string(), "model": pa.string()})),
}


class Spread:
    def __init__(self):
        self.values = []

    def add(self, value):
        self.values.append(value)

    def remove(self, value):
        self.values.remove(value)

    def merge(self, other):
        self.values += other.values

    def value(self) -> int | None:
        return max(self.values) - min(self.values) if self.values else None


def an_hour(rows):
    return pc.add(rows.column("ts"), pa.scalar(dt.timedelta(hours=1)))


def score(delay) -> float:
    return delay / 2


FUNCTIONS = {"rough": lambda wind: wind > 30, "spread": Spread, "an_hour": an_hour, "score": score}


def at(minute: int) -> dt.datetime:
    return dt.datetime(2013, 1, 1, 12, tzinfo=dt.UTC) + dt.timedelta(minutes=minute)


def given(name: str) -> pa.Table:
    rows = {
        "flights": [(at(m), m, "JFK" if m % 2 else "LGA", f"N{m % 3}", 10 * m) for m in range(0, 300, 5)],
        "weather": [(at(m), "JFK", float(m % 60)) for m in range(0, 300, 20)],
        "planes": [(f"N{k}", f"model {k}") for k in range(3)],
    }[name]
    schema = SOURCES[name].schema
    return pa.table(list(zip(*rows, strict=True)), schema=schema)


def test_the_table_is_read_whole():
    assert len(ROWS) == PAGE.read_text().count("\n| ") - PAGE.read_text().count("| `[") - 3
    assert sum(says == "yes" for *_, says in ROWS) >= 40


@pytest.mark.parametrize(("text", "says"), [pytest.param(t, s, id=name) for name, t, s in ROWS])
def test_the_reference_tells_the_truth(text, says):
    if says != "yes":
        with pytest.raises(tw.ThalwegError) as refused:
            tw.Engine(text, SOURCES, functions=FUNCTIONS)
        assert says.removeprefix("no: ") in str(refused.value)
        return
    engine = tw.Engine(
        text, SOURCES, functions=FUNCTIONS, tables={"planes": given("planes")} if "planes" in text else {}
    )
    found = 0
    for name in ("weather", "flights"):
        if re.search(rf"\b{name}\b", text):
            found += engine.push(name, given(name)).num_rows
    found += engine.advance().num_rows + engine.close().num_rows
    assert found > 0
