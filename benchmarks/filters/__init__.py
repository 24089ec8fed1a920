"""Adaptive filters measured: work against the best orders, CPU, rows/s; against Spark's own chain and DuckDB.

`python -m benchmarks.filters` from the root of the repository; `--quick` for a run of less than a minute.
"""
