"""The join engine without Spark: push batches, advance time, take results as Arrow."""

from datetime import datetime, timedelta

import pyarrow as pa

import thalweg as tw

SCHEMA = pa.schema([("ts", pa.timestamp("us")), ("sensor", pa.int64()), ("value", pa.float64())])
START = datetime(2026, 1, 1)


def readings(first, count, step):
    times = [START + timedelta(seconds=step * i) for i in range(first, first + count)]
    values = {"ts": times, "sensor": [i % 5 for i in range(count)], "value": [float(i) for i in range(count)]}
    return pa.table(values, schema=SCHEMA)


sources = {name: tw.Source(SCHEMA, time="ts", unit="ms") for name in ("heat", "light")}
text = """
SELECT h.sensor, h.value AS heat, l.value AS light
FROM heat [RANGE 10 SECONDS] AS h, light [RANGE 10 SECONDS] AS l
WHERE h.sensor = l.sensor AND h.value > l.value
"""
engine = tw.Engine(text, sources, index="hash")  # or "bits", "amri", a Layout, a tuner
total = 0
for k in range(5):
    total += engine.push("heat", readings(100 * k, 100, 1)).num_rows
    total += engine.push("light", readings(50 * k, 50, 2)).num_rows
total += engine.close().num_rows
print(total, "results")
for alias, counted in engine.stats()["inputs"].items():
    route = " → ".join(engine.plan().route(alias))
    print(alias, "rows in", counted["rows in"], "stored", counted["stored"], "visits", route)
for event in engine.events():
    print(event.by, event.kind, event.why)
