"""The classes of content-based routing: combinations of partitions of its classifier attributes, and their orders.

Invariant: `codes` is sorted, and line k of `orders` is the order of the class `codes[k]`. A code is one number for the
partitions of all attributes in use, so a compiled lookup finds a row's class (kernels.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thalweg.profile.content.pairs import Codes, Content, Parts

Ints = NDArray[np.int64]
MOST_CLASSES = 1024
"""Size: most combinations to keep; beyond that, only those of the latest batch stay."""
MOST_CODES = 64 * MOST_CLASSES
"""Size: most possible codes for which a table gives the class directly."""


@dataclass(eq=False)
class ClassTable:
    """Classes under one choice of attributes."""

    attribute: list[int]
    """For each operator its classifier attribute, or -1 (CA in the paper)."""
    d: int
    codes: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    orders: Ints = field(default_factory=lambda: np.zeros((0, 0), np.int64))

    def __post_init__(self) -> None:
        self.used = sorted({j for j in self.attribute if j >= 0})
        """The attributes in use."""
        self._parts: dict[int, Ints] = {}
        self._known: Codes | None = None
        if not len(self.codes):
            self.orders = np.zeros((0, len(self.attribute)), np.int64)

    def __len__(self) -> int:
        return len(self.codes)

    def replaced(self, op: int, attribute: int) -> ClassTable:
        """Give an operator another attribute; no class is known under it yet."""
        chosen = list(self.attribute)
        chosen[op] = attribute
        return ClassTable(chosen, self.d)

    @property
    def known(self) -> Codes:
        """The codes, and the class of every possible code if they are few."""
        if self._known is None:
            every = (self.d + 1) ** len(self.used)
            places = np.full(every if every <= MOST_CODES else 0, len(self), np.int32)
            if len(places):
                places[self.codes] = np.arange(len(self), dtype=np.int32)
            self._known = (self.codes, places)
        return self._known

    def part(self, j: int) -> Ints:
        """The partition of attribute j in each class."""
        if j not in self._parts:
            behind = len(self.used) - 1 - self.used.index(j)
            self._parts[j] = self.codes // (self.d + 1) ** behind % (self.d + 1)
        return self._parts[j]

    def meet(self, parts: Parts) -> None:
        """Add unknown classes of rows; their orders are -1 until they are set."""
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
        self.codes, self.orders, self._parts = codes, orders, {}
        self._known = None

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
        """Read what `record` wrote. Guards may have been added since, so orders are made allowed again."""
        attribute, codes = list(record["attribute"]), np.array(record["codes"], np.int64)
        orders = [allowed(order) for order in record["orders"]]
        return cls(attribute, d, codes, np.array(orders, np.int64).reshape(len(codes), len(attribute)))
