"""Keeps Spark's garbage collection after each task short.

The loop that a Python worker runs in calls `gc.collect()` between tasks, through everything that was ever imported: a
tenth of a second and more with the engine loaded, for every task. What is there when a worker's first task ends stays
for good, so it is taken out of collection once. Counting references goes on as before.
"""

from __future__ import annotations

import gc
import os

_settled_in: int | None = None


def settle() -> None:
    """To be called where a task ends; does something once in each process."""
    global _settled_in
    if _settled_in != os.getpid():
        _settled_in = os.getpid()
        gc.collect()
        gc.freeze()
