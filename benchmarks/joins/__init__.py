"""Windowed joins: Thalweg beside a hand-written kernel, Polars and DuckDB, on data whose selectivities drift.

`python -m benchmarks.joins` from the root of a clone runs all of it; `--quick` a part, in about a minute.
"""
