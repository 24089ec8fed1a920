"""The process that Spark forks Python workers from, with the engine already imported, so workers start fast.

`tw.session` sets it as `spark.python.daemon.module`; nothing depends on it.
"""

from __future__ import annotations

from pyspark.daemon import manager

import thalweg.spark.cell
import thalweg.spark.filters
import thalweg.spark.pack  # noqa: F401
from thalweg.spark.settle import settle

if __name__ == "__main__":
    settle()
    manager()
