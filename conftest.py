"""How the suite is dealt out to the workers of pytest-xdist: a file at a time where Spark is started, slow ones first.

A session serves all tests of a worker. So each worker starts one, both work until the end, and what needs no Spark
fills what is left.
"""

from __future__ import annotations

import pytest

ON_SPARK = ("/tests/spark/", "/tests/demo/", "/tests/query/test_compile", "/tests/benchmarks/")
SLOW = ("test_sql_faults", "test_demo", "test_faults", "test_sql.py", "test_compile", "test_app", "test_examples")


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def turn(item: pytest.Item) -> int:
        path = item.path.as_posix()
        slow = next((k for k, name in enumerate(SLOW) if name in path), len(SLOW))
        return slow if any(place in path for place in ON_SPARK) else len(SLOW) + 1

    items.sort(key=turn)
    for item in items:
        spark = turn(item) <= len(SLOW)
        item.add_marker(pytest.mark.xdist_group(item.path.name if spark else item.path.parent.name))
