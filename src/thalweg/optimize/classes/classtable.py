"""The classes that content-based routing knows: combinations of partitions of its classifier attributes, and their orders.

Invariant: `codes` is sorted, and line k of `orders` is the order of the class `codes[k]`. A code is one number for the
partitions of all attributes in use, so that a row's class is found by one binary search, compiled (kernels.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thalweg.profile.content.pairs import Content, Parts

Ints = NDArray[np.int64]
MOST_CLASSES = 1024
"""Combinations that are kept; when there are more, those of the latest batch stay."""


@dataclass(eq=False)
class ClassTable:
    """Classes under one choice of attributes."""

    attribute: list[int]
    """For each operator its classifier attribute, or -1 (CA in the paper)."""
    d: int
    codes: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    orders: Ints = field(default_factory=lambda: np.zeros((0, 0), np.int64))

    def __post_init__(self) -> None:
        if not len(self.codes):
            self.orders = np.zeros((0, len(self.attribute)), np.int64)

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def used(self) -> list[int]:
        return sorted({j for j in self.attribute if j >= 0})

    def replaced(self, op: int, attribute: int) -> ClassTable:
        """Another attribute for an operator; no class is known under it yet."""
        chosen = list(self.attribute)
        chosen[op] = attribute
        return ClassTable(chosen, self.d)

    def classes(self, parts: Parts) -> NDArray[np.int32]:
        """The class of each row, given a line of partitions for each attribute in use; `len(self)` if not known."""
        from thalweg.profile.content import kernels

        out = np.empty(parts.shape[1], np.int32)
        kernels.places(parts, self.d, self.codes, out)
        return out

    def part(self, j: int) -> Ints:
        """The partition of attribute j in each class."""
        behind = len(self.used) - 1 - self.used.index(j)
        return np.asarray(self.codes // (self.d + 1) ** behind % (self.d + 1))

    def meet(self, parts: Parts) -> None:
        """Add the classes of rows that were not known; their orders are -1 until they are set."""
        code = np.zeros(parts.shape[1], np.int64)
        for line in parts:
            code = code * (self.d + 1) + line
        met = np.unique(code)
        codes = np.union1d(self.codes, met)
        if len(codes) > MOST_CLASSES:
            codes = met[:MOST_CLASSES]
        orders = np.full((len(codes), len(self.attribute)), -1, np.int64)
        kept = np.isin(codes, self.codes)
        orders[kept] = self.orders[np.searchsorted(self.codes, codes[kept])]
        self.codes, self.orders = codes, orders

    def labels(self, content: Content) -> list[str]:
        """A name for each class: those on the same order share one, made of the partitions of the first few."""
        groups: dict[tuple[int, ...], list[int]] = {}
        for k, order in enumerate(self.orders.tolist()):
            groups.setdefault(tuple(order), []).append(k)
        parts = {j: self.part(j).tolist() for j in self.used}

        def told(k: int) -> str:
            return " & ".join(content.describe(j, parts[j][k]) for j in self.used)

        names = [""] * len(self)
        for members in groups.values() if len(groups) > 1 else ():
            name = self._label(members, told, content)
            for k in members:
                names[k] = name
        return names

    def _label(self, members: list[int], told: Callable[[int], str], content: Content) -> str:
        mine = [told(k) for k in members[: self.d]]
        if len(self.used) == 1:
            name = content.name(self.used[0])
            mine = [mine[0], *(t.removeprefix(name).strip() for t in mine[1:])]
        more = len(members) - len(mine)
        return ", ".join(mine) + (f" and {more} more" if more else "")

    def record(self) -> dict[str, Any]:
        return {"attribute": list(self.attribute), "codes": self.codes.tolist(), "orders": self.orders.tolist()}

    @classmethod
    def of(cls, record: dict[str, Any], d: int, allowed: Callable[[list[int]], tuple[int, ...]]) -> ClassTable:
        """What `record` wrote. Guards may have been added since, so orders are made allowed again."""
        attribute, codes = list(record["attribute"]), np.array(record["codes"], np.int64)
        orders = [allowed(order) for order in record["orders"]]
        return cls(attribute, d, codes, np.array(orders, np.int64).reshape(len(codes), len(attribute)))
