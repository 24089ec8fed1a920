"""A streaming query from files to files, to be killed and started again: FOLDER OUT CHECKPOINT MASTER SHAPE CELLS POLICY.

With STATE=files, state lies in files. With MOVES, state moves to the new number of cells. With SNAPSHOTS, Spark writes a
snapshot of every version of the state, also of those that are never committed. With a folder in FAULTS, one task of a
cell fails once and one worker dies once, in mid-batch. A MASTER that begins with `connect:` starts a Spark Connect
server. Prints `batch N` when a micro-batch is committed and `done` at the end.
"""

import os
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, os.getcwd())
folder, out, checkpoint, master, name, cells, policy = sys.argv[1:8]
faults = os.environ.get("FAULTS")

from pyspark import cloudpickle  # noqa: E402
from tests.spark import joinshapes, relationshapes  # noqa: E402

import thalweg as tw  # noqa: E402

cloudpickle.register_pickle_by_value(joinshapes)
remote = master.startswith("connect:")
if remote:
    os.environ["SPARK_REMOTE"] = master.removeprefix("connect:")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
STORE = "spark.sql.streaming.stateStore"
SNAPSHOTS = {f"{STORE}.maintenanceInterval": "50ms", f"{STORE}.minDeltasForSnapshot": "1"}
spark = tw.session(
    settings=SNAPSHOTS if os.environ.get("SNAPSHOTS") else {},
    spark_sql_shuffle_partitions=2, spark_thalweg_control=checkpoint + "-control",
    **({} if remote else {"spark_master": master}),
)  # fmt: skip
shape = {**joinshapes.SHAPES, **relationshapes.ANSWERS, **relationshapes.CHANGES}[name]
inputs = {}
for stream in shape.streams:
    df = spark.readStream.schema(joinshapes.DDL).option("maxFilesPerTrigger", 1).parquet(str(Path(folder) / stream))
    inputs[stream] = tw.stream(df, time="ts", lateness=joinshapes.LATENESS)
if shape.table:
    inputs["names"] = spark.createDataFrame(joinshapes.NAMES)
if "odd(" in shape.ours:
    inputs["odd"] = joinshapes.odd
text = shape.ours
if faults:
    inputs["trouble"] = joinshapes.troubled(faults)
    text = joinshapes.in_trouble(text)
df = tw.sql(
    text, cells=int(cells), policy=policy, name="killed", checkpoint=os.environ.get("MOVES") and checkpoint,
    state=checkpoint + "-state" if os.environ.get("STATE") == "files" else "spark", **inputs,
)  # fmt: skip
query = df.writeStream.format("parquet").option("checkpointLocation", checkpoint).trigger(availableNow=True).start(out)


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
print("results", int(tw.query("killed").stats().results.sum()), flush=True)
print("done", flush=True)
spark.stop()
