"""A filter and a join as tables of a pipeline.

Spark analyses nothing inside a query function, and Thalweg needs the schema of its inputs. So the queries are built
beside the functions, from sources that have a schema, and a function returns what is built. A pipeline may not set
Spark's state store, so the join keeps its state in files, which needs none.
"""

from pathlib import Path

from pyspark import pipelines as dp
from pyspark.sql import SparkSession

import thalweg as tw

HERE = Path(__file__).parents[1]
spark = SparkSession.active()
departures = spark.readStream.schema("ts TIMESTAMP, flight LONG, origin LONG").json(f"{HERE}/data/departures")
weather = spark.readStream.schema("ts TIMESTAMP, origin LONG, wind LONG").json(f"{HERE}/data/weather")


def rough(wind):
    return wind > 30


stormy = tw.where(weather, rough, name="stormy")
rough_departures = tw.sql(
    """
    SELECT f.flight, w.wind
    FROM departures [RANGE 1 HOUR] AS f, weather [RANGE 1 HOUR] AS w
    WHERE f.origin = w.origin AND rough(w.wind)
    """,
    departures=tw.stream(departures, time="ts"),
    weather=tw.stream(weather, time="ts"),
    rough=rough,
    cells=2,
    state=str(HERE / "state"),
    name="rough departures",
)


@dp.table(name="stormy")
def stormy_hours():
    return stormy


@dp.table(name="rough_departures")
def departures_in_rough_weather():
    return rough_departures
