"""A streaming filter from files to files, to be killed and started again: FOLDER OUT CHECKPOINT MASTER SEED POLICY
[REMOTE].

Prints `batch N` when a micro-batch is committed and `done` at the end.
"""

import os
import sys
import threading
import time

sys.path.insert(0, os.getcwd())
folder, out, checkpoint, master, seed, policy = sys.argv[1:7]
if master.startswith("connect:"):
    os.environ["SPARK_REMOTE"] = master.removeprefix("connect:")

from pyspark import cloudpickle  # noqa: E402
from tests.spark import predicates  # noqa: E402

import thalweg as tw  # noqa: E402

cloudpickle.register_pickle_by_value(predicates)
spark = tw.session(
    spark_master=master, spark_sql_shuffle_partitions=2, spark_thalweg_control=checkpoint + "-control",
)  # fmt: skip
asked, _ = predicates.make(int(seed))


def slow(id):
    time.sleep(0.0005)
    return True


stream = spark.readStream.schema("id long, a long, b long").option("maxFilesPerTrigger", 1).parquet(folder)
kept = tw.where(stream, *asked, tw.pred(slow), policy=policy, name="killed")
query = (
    kept.writeStream.format("parquet").option("checkpointLocation", checkpoint).trigger(availableNow=True).start(out)
)


def tell():
    told = -1
    while True:
        progress = query.lastProgress
        if progress and progress["batchId"] > told:
            told = progress["batchId"]
            print("batch", told, flush=True)
        time.sleep(0.05)


threading.Thread(target=tell, daemon=True).start()
query.awaitTermination()
if query.exception():
    raise query.exception()
view = tw.query("killed").view()
print("rows", view.rows_in, view.rows_out, view.calls, flush=True)
print("done", flush=True)
spark.stop()
