"""The benchmark of many classes: every number of classes runs, and costs something."""

from __future__ import annotations

import pytest
from benchmarks.classes.measure import CLASSES, measure


@pytest.mark.parametrize("kind", ["filters", "joins"])
def test_all_numbers_of_classes_are_measured(kind: str) -> None:
    found = measure(kind, rows=500, rounds=1)
    assert [p.classes for p in found] == list(CLASSES)
    assert all(p.total > p.python > 0 for p in found)
    assert found[0].ratio == 1.0
