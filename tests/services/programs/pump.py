"""Started and killed by a test: joins two topics and writes the results exactly once.

pump.py SERVERS SOURCE CHECKPOINT JARS: `SOURCE` is "thalweg" for tw.kafka or "spark" for Spark's own connector.
"""

from __future__ import annotations

import sys

from pyspark.sql import functions as F

import thalweg as tw

SCHEMA = "ts TIMESTAMP, id LONG"
TEXT = "SELECT a.id FROM a [RANGE 1 MINUTE] AS a, b [RANGE 1 MINUTE] AS b WHERE a.id = b.id"


def main(servers: str, source: str, checkpoint: str, jars: str) -> None:
    spark = tw.session(spark_master="local[2]", spark_sql_shuffle_partitions=2, spark_jars=jars)
    kafka = tw.kafka(servers, {"log_level": 0})

    def read(topic: str):
        if source == "thalweg":
            return kafka.read_stream(topic, schema=SCHEMA, max_offsets=500)
        options = {"kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": "earliest",
                   "maxOffsetsPerTrigger": "500"}  # fmt: skip
        raw = spark.readStream.format("kafka").options(**options).load()
        return raw.select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("v")).select("v.*")

    streams = {name: tw.stream(read(f"{source}-{name}"), time="ts", lateness="10 minutes") for name in ("a", "b")}
    pairs = tw.sql(TEXT, **streams, cells=2, name=f"pump {source}")
    query = (
        kafka.write(pairs, f"{source}-out", key="id", exactly_once=True, tasks=2)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    print("done", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
