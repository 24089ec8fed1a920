"""Two halves of the suite run side by side: what starts Spark, one after the other, and everything else."""

from __future__ import annotations

import pytest

HALVES = ("/tests/spark/", "/tests/demo/", "/tests/query/", "/tests/benchmarks/")
"""Where Spark is started; a session serves all tests of a worker, so they belong into one."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        path = item.path.as_posix()
        item.add_marker(pytest.mark.xdist_group("spark" if any(half in path for half in HALVES) else "rest"))
