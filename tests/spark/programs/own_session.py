"""A program whose session is the user's own: MASTER, or `connect` with the server that SPARK_REMOTE names."""

import sys

from pyspark.sql import SparkSession

import thalweg as tw

builder = SparkSession.builder.config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "1")
spark = builder.getOrCreate() if sys.argv[1] == "connect" else builder.master(sys.argv[1]).getOrCreate()
rows = tw.where(spark.range(100), lambda id: id % 2 == 0, name="even")
print("kept", rows.count())
joined = tw.sql(
    "SELECT a.id FROM a, b WHERE a.id = b.id AND odd(a.id)", a=rows, b=spark.range(10), odd=lambda id: id > 4
)
print("joined", sorted(r.id for r in joined.collect()))
spark.stop()
