"""Joins on Spark: `tw.sql` beside Spark's own stream-stream joins, on the same files in the same run.

Run `python -m benchmarks.spark_joins` from the root of a clone; `--quick` runs a part, in a few minutes. `--flink PYTHON`
adds PyFlink's interval joins, in an interpreter that has PyFlink.
"""
