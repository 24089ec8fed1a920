"""The check of a user's own aggregate finds each way to break the contract."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from thalweg.testing import check_aggregate


class Span:
    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()

    def add(self, x: int) -> None:
        self.counts[x] += 1

    def remove(self, x: int) -> None:
        self.counts[x] -= 1
        self.counts = +self.counts

    def value(self) -> int | None:
        return max(self.counts) - min(self.counts) if self.counts else None

    def merge(self, other: Span) -> None:
        self.counts.update(other.counts)


class Forgets(Span):
    def remove(self, x: int) -> None:
        pass


class Empties(Span):
    def value(self) -> int | None:
        found = super().value()
        self.counts.clear()
        return found


class Steals(Span):
    def merge(self, other: Span) -> None:
        super().merge(other)
        other.counts.clear()


class Ignores(Span):
    def merge(self, other: Span) -> None:
        pass


class Hides(Span):
    def __getstate__(self) -> dict[str, Any]:
        return {}


class LastOnly(Span):
    def add(self, x: int) -> None:
        super().add(x)
        self.last = x

    def value(self) -> int | None:
        return self.last if self.counts else None


def test_one_that_keeps_it() -> None:
    check_aggregate(Span, [1, 2, 5, -7])


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (Forgets, "still seen|not empty"),
        (Empties, "changed it"),
        (Steals, "changed the other"),
        (Ignores, "is not adding all"),
        (Hides, "saved state"),
        (LastOnly, "still seen"),
        (object, "lacks add, remove, value, merge"),
    ],
)
def test_those_that_break_it(broken: Any, why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        check_aggregate(broken, [1, 2, 5, -7])


def test_several_arguments_come_as_tuples() -> None:
    class Product(Span):
        def add(self, x: int, y: int) -> None:  # type: ignore[override]
            super().add(x * y)

        def remove(self, x: int, y: int) -> None:  # type: ignore[override]
            super().remove(x * y)

    check_aggregate(Product, [(1, 2), (3, 4)])
