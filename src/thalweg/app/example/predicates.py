"""Ordinary Python: parameters are named like the columns they read."""

from __future__ import annotations


def wanders(id: int) -> bool:
    """Takes more than a hundred Collatz steps to reach 1 (halve even numbers; triple odd ones and add one)."""
    steps = 0
    while id > 1:
        id, steps = (id // 2 if id % 2 == 0 else 3 * id + 1), steps + 1
    return steps > 100


def palindrome(id: int) -> bool:
    """Reads the same forwards and backwards."""
    return str(id) == str(id)[::-1]
