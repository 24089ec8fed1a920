"""Joins on Spark: `tw.sql` beside Spark's own stream-stream joins, on the same files in the same run.

`python -m benchmarks.spark_joins` from the root of a clone runs all of it; `--quick` a part, in a few minutes.
With `--flink PYTHON` also PyFlink's interval joins, in an interpreter that has PyFlink.
"""
