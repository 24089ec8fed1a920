"""A soak: a three-way join at a steady rate for a quarter of an hour; memory, latency and state must stay flat.

Run `python -m benchmarks.soak` from the root of a clone; see `--minutes` and `--rate`.
"""
