"""Measures adaptive filters: work against the best orders, CPU and rows/s, against Spark's own chain and DuckDB.

Run `python -m benchmarks.filters` from the root of the repository; `--quick` takes less than a minute.
"""
