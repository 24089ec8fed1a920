"""Shares, copies and skew from 2 to 1,000 cells, computed with the code that queries use; no cluster needed.

Run `python -m benchmarks.shares` from the root of a clone; it takes less than a minute.
"""
