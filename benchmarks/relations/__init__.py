"""Queries that are more than a join, beside Spark, DuckDB and Polars: an anti join, a sliding count behind a three-way
join, a count of distinct values in a sliding hour.
"""
