"""A soak: a three-way join at a steady rate for a quarter of an hour; memory, latency and state have to stay flat.

`python -m benchmarks.soak` from the root of a clone; `--minutes` and `--rate` change it.
"""
