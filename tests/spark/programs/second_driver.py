"""One of two drivers on one checkpoint: CHECKPOINT OUT. Prints `running` after the first batch, then how it ended."""

import os
import sys
import threading
import time

sys.path.insert(0, os.getcwd())
checkpoint, out = sys.argv[1:3]

import thalweg as tw  # noqa: E402

spark = tw.session(
    spark_master="local[1]", spark_sql_shuffle_partitions=1, spark_thalweg_control=f"{out}-{os.getpid()}"
)
rate = spark.readStream.format("rate").option("rowsPerSecond", 20).load()
names = spark.createDataFrame([(k, f"name {k}") for k in range(5)], "k long, name string")
df = tw.sql(
    "SELECT r.value, n.name FROM r [RANGE 1 MINUTE], n WHERE r.value % 5 = n.k", r=tw.stream(rate, time="timestamp"), n=names,
    cells=1, name="twice",
)  # fmt: skip
query = df.writeStream.format("parquet").option("checkpointLocation", checkpoint).start(out)


def tell():
    while not query.lastProgress:
        time.sleep(0.05)
    print("running", flush=True)


threading.Thread(target=tell, daemon=True).start()
try:
    tw.await_termination(query, float(os.environ.get("SECONDS", "240")))
    query.stop()
    print("ended", flush=True)
except tw.CheckpointError as error:
    print("refused:", str(error).splitlines()[0], flush=True)
spark.stop()
