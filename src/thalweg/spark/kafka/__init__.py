"""Kafka without a jar: topics as DataFrames and DataFrames into topics, on Spark's Python data source API.

`broker.py` is what users hold. `offsets.py` says which records a micro-batch takes, `source.py` tells Spark so,
`fetch.py` brings them, `columns.py` makes Arrow of them, `values.py` reads what is in them. `sink.py` writes.
"""
