"""In which order the workers of pytest-xdist take the files of the suite: what starts Spark first, slow ones before all.

A session serves all tests of a worker. So each worker starts one, both work until the end, and what needs no Spark
fills what is left. (Files, not groups: with pytest 9.2 the marks that `--dist loadgroup` reads have no effect.)
"""

from __future__ import annotations

import pytest

ON_SPARK = ("/tests/spark/", "/tests/demo/", "/tests/language/test_compile", "/tests/benchmarks/")
SLOW = ("test_sql_faults", "test_demo", "test_sql.py", "test_faults", "test_compile", "test_app", "test_examples")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def turn(item: pytest.Item) -> int:
        path = item.path.as_posix()
        slow = next((k for k, name in enumerate(SLOW) if name in path), len(SLOW))
        return slow if any(place in path for place in ON_SPARK) else len(SLOW) + 1

    items.sort(key=turn)
