"""Tests of this folder need Spark; the session is that of `tests/conftest.py`."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(items):
    for item in items:
        if "/spark/" in str(item.fspath):
            item.add_marker(pytest.mark.spark)
