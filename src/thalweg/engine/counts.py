"""Counts per class: how many rows of each class came to each operator, and how many left it."""

from __future__ import annotations

from collections.abc import Iterable

from thalweg.contract.visits import Journey

ByClass = dict[str, list[int]]
"""For each class of tuples: its rows, then the rows that came to each operator, then those that left it."""
MOST_CLASSES = 64
"""Classes that are counted one by one; a plan has a handful."""


def count_classes(classes: ByClass, journeys: Iterable[Journey], operators: int) -> None:
    """Add what the rusters of each class met; those without a class are passed over."""
    for journey in journeys:
        for _, label, rows, visits in journey.by_route():
            if not label or (label not in classes and len(classes) >= MOST_CLASSES):
                continue
            counts = classes.setdefault(label, [0] * (2 * operators + 1))
            counts[0] += rows
            for v in visits:
                counts[1 + v.operator] += v.rows_in
                counts[1 + operators + v.operator] += v.rows_out
