"""A stream whose best order turns round half-way; every decision can be read, and seen on one page."""

import tempfile
from pathlib import Path

import thalweg as tw

spark = tw.session()
folder = Path(tempfile.mkdtemp())
spark.range(80_000).repartitionByRange(8, "id").sortWithinPartitions("id").write.parquet(str(folder / "numbers"))


def early(id):  # drops nearly everything in the first half
    return id >= 40_000 or (sum(range(50)) and id % 50 == 0)


def late(id):  # drops nearly everything in the second half
    return id < 40_000 or (sum(range(50)) and id % 50 == 1)


numbers = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).parquet(str(folder / "numbers"))
stream = tw.where(numbers, late, early, name="turning", policy="agreedy", seed=1)
query = (
    stream.writeStream.format("parquet")
    .option("checkpointLocation", str(folder / "checkpoint"))
    .trigger(availableNow=True)
    .start(str(folder / "out"))
)
query.awaitTermination()
print(spark.read.parquet(str(folder / "out")).count(), "rows")
print(tw.query("turning").events()[["batch", "kind", "after", "why"]].to_string(index=False))
print("report:", tw.query("turning").report(folder / "turning.html").name)
