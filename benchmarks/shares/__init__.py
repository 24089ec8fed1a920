"""Shares, copies and skew from 2 to 1,000 cells, computed with the code that runs; no cluster needed.

`python -m benchmarks.shares` from the root of a clone; less than a minute.
"""
