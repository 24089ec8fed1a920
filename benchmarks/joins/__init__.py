"""Windowed joins: Thalweg beside a hand-written kernel, Polars and DuckDB, on data whose selectivities drift.

Run `python -m benchmarks.joins` from the root of a clone; `--quick` runs a part, in about a minute.
"""
