"""Two streams and a table in one windowed join: which clicks came less than 20 seconds before a purchase?"""

import tempfile
from pathlib import Path

import thalweg as tw

spark = tw.session()
folder = Path(tempfile.mkdtemp())
spark.sql(
    "SELECT timestamp_seconds(id) AS ts, id, id % 40 AS visitor, id % 4 AS site FROM range(0, 4000)"
).write.parquet(str(folder / "clicks"))
spark.sql(
    "SELECT timestamp_seconds(id * 10) AS ts, id AS number, (id * 7) % 40 AS visitor FROM range(0, 400)"
).write.parquet(str(folder / "buys"))
sites = spark.createDataFrame([(0, "NZ"), (1, "SE"), (2, "PT"), (3, "CL")], "site long, country string")


def files(name, schema):
    return spark.readStream.schema(schema).parquet(str(folder / name))


def northern(country):
    return country in ("SE", "PT")


joined = tw.sql(
    """
    SELECT b.number, c.id AS click, s.country
    FROM buys [RANGE 20 SECONDS] AS b, clicks [RANGE 20 SECONDS] AS c, sites AS s
    WHERE b.visitor = c.visitor AND c.site = s.site AND c.ts <= b.ts AND northern(s.country)
    """,
    buys=tw.stream(files("buys", "ts timestamp, number long, visitor long"), time="ts", lateness="5 seconds"),
    clicks=tw.stream(
        files("clicks", "ts timestamp, id long, visitor long, site long"), time="ts", lateness="5 seconds"
    ),
    sites=sites,
    northern=northern,
    cells=2,
    name="clicks before buys",
)
query = (
    joined.writeStream.format("parquet")
    .option("checkpointLocation", str(folder / "checkpoint"))
    .trigger(availableNow=True)
    .start(str(folder / "out"))
)
query.awaitTermination()
print(spark.read.parquet(str(folder / "out")).count(), "pairs")
print(tw.query("clicks before buys").explain())
