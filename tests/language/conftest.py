"""The sources and functions that the fixtures speak of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from thalweg.language import Source


def rough(wind: float | None, visibility: float | None) -> bool | None:
    return None if wind is None else wind > 20


def lookup(address: str) -> bool:
    return address.startswith("10.")


def match(data: str, pattern: str) -> bool:
    return pattern in data


def score(value: float) -> float:
    return value * 2


def windy(speed: pa.Array) -> pa.Array:
    return pc.greater(speed, 20)


def foggy(visibility: pd.Series) -> pd.Series:
    return visibility < 1


@pytest.fixture(scope="session")
def functions() -> dict[str, Callable[..., Any]]:
    return {
        "rough": rough, "lookup": lookup, "match": match, "score": score, "windy": windy, "foggy": foggy,
        "near": lambda a, b: abs(a - b) < 3,
    }  # fmt: skip


@pytest.fixture(scope="session")
def sources() -> dict[str, Source]:
    i32, i64, text, double = pa.int32(), pa.int64(), pa.string(), pa.float64()
    plain, zoned = pa.timestamp("us"), pa.timestamp("us", "UTC")
    abc = pa.schema({"A": i32, "B": i32, "C": i32, "t": i64})
    return {
        "flights": Source(
            pa.schema({"ts": zoned, "flight": i32, "origin": text, "dest": text, "tailnum": text, "delay": i32,
                       "tags": pa.list_(text), "at": pa.struct({"lat": double, "lon": double})}), time="ts",
        ),
        "weather": Source(
            pa.schema({"ts": zoned, "origin": text, "wind_speed": double, "visib": double, "day": pa.date32()}),
            time="ts",
        ),
        "planes": Source(pa.schema({"tailnum": text, "model": text, "seats": i64, "price": pa.decimal128(10, 2)})),
        "airports": Source(pa.schema({"faa": text, "name": text, "Name": text, "alt": double, "order": i32})),
        "S": Source(abc, time="t", unit="ms"), "S1": Source(abc, time="t", unit="ms"), "S2": Source(abc, time="t", unit="ms"),
        "C": Source(pa.schema({"pid": i64, "size": i32, "t": i64}), time="t", unit="ms"),
        "B": Source(pa.schema({"pid": i32, "t": i64}), time="t", unit="ms"),
        "O": Source(pa.schema({"pid": pa.int16(), "t": i64}), time="t", unit="ms"),
        "Packets": Source(pa.schema({"destAddr": text, "data": text, "time": i64}), time="time", unit="ms"),
        "plain": Source(pa.schema({"at": plain, "day": pa.date32(), "x": i64}), time="at"),
        "my stream": Source(pa.schema({"my time": i64, "key": i64, "a.b": i32}), time="my time", unit="ms"),
        "odd": Source(pa.schema({
            "k8": pa.int8(), "k64": i64, "f32": pa.float32(), "f64": double, "d52": pa.decimal128(5, 2),
            "d380": pa.decimal128(38, 0), "d3838": pa.decimal128(38, 38), "yes": pa.bool_(), "raw": pa.binary(),
            "dict": pa.dictionary(i32, text), "day": pa.date32(), "zoned": zoned, "plain": plain, "list": pa.list_(i32),
        })),
        "CarStr": Source(pa.schema({"cid": i64, "xpos": i64, "sid": i64, "t": i64}), time="t", unit="ms"),
        "db.cars": Source(pa.schema({"car": i64})),
    }  # fmt: skip
