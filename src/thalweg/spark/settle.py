"""Keeps Spark's garbage collection after each task short.

The loop of a Python worker calls `gc.collect()` between tasks, over everything ever imported: with the engine loaded
that takes a tenth of a second or more per task. Objects alive when a worker's first task ends stay alive, so we exempt
them from collection once. Reference counting is unaffected.
"""

from __future__ import annotations

import gc
import os

_settled_in: int | None = None


def settle() -> None:
    """Call at the end of a task; acts once per process."""
    global _settled_in
    if _settled_in != os.getpid():
        _settled_in = os.getpid()
        gc.collect()
        gc.freeze()
