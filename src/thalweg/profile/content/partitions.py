"""Partitions: the values of an attribute in d parts, by hash if discrete, by running range if continuous (CBR 4.1).

An extra part, d, holds nulls. A range spans the smallest to the largest value seen. When a value falls outside, the
range grows by an extra half of its width, and its parts change their meaning: `widen` returns those attributes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thalweg.profile.content.attributes import Attributes, Values

Floats = NDArray[np.float64]
PARTS = 24
"""Size: the paper's d (table 2)."""


class Partitions:
    """Part numbers of values.

    >>> p = Partitions(d=4)
    >>> x = np.array([[0.0], [1.0], [2.0], [4.0], [np.nan]], np.float32)
    >>> p.widen(x, [False]), p.parts(x[:, 0], 0, False).tolist()
    ([0], [0, 1, 2, 3, 4])
    """

    def __init__(self, d: int = PARTS) -> None:
        self.d = d
        self.low: list[float | None] = []
        self.high: list[float | None] = []

    def widen(self, values: Values, category: list[bool]) -> list[int]:
        """Extend the ranges to these values; returns the attributes whose parts changed their meaning."""
        while len(self.low) < values.shape[1]:
            self.low.append(None)
            self.high.append(None)
        changed = []
        for j in range(values.shape[1]):
            finite = values[np.isfinite(values[:, j]), j]
            if category[j] or not len(finite):
                continue
            least, most = float(finite.min()), float(finite.max())
            low, high = self.low[j], self.high[j]
            if low is None or high is None:
                self.low[j], self.high[j] = least, most
            elif least < low or most > high:
                slack = (max(most, high) - min(least, low)) / 2
                self.low[j] = least - slack if least < low else low
                self.high[j] = most + slack if most > high else high
            else:
                continue
            changed.append(j)
        return changed

    def cuts(self, attributes: list[int], category: Mapping[int, bool] | Sequence[bool]) -> tuple[Floats, Floats]:
        """For each attribute the least value and the parts per unit; categories, which are hashed, have -1 parts."""
        low, scale = np.zeros(len(attributes)), np.zeros(len(attributes))
        for k, j in enumerate(attributes):
            least, most = self.low[j], self.high[j]
            if category[j]:
                scale[k] = -1.0
            elif least is not None and most is not None and most > least:
                low[k], scale[k] = least, self.d / (most - least)
        return low, scale

    def parts(self, column: Values, j: int, category: bool) -> NDArray[np.int64]:
        """The part of each value of one attribute."""
        from thalweg.profile.content import kernels

        low, scale = self.cuts([j], {j: category})
        out = np.empty((1, len(column)), np.int64)
        kernels.parts(column[None, :], np.array([[0, -1]]), low, scale, self.d, 1, out)
        return np.asarray(out[0])

    def describe(self, j: int, part: int, attributes: Attributes) -> str:
        """A part as text."""
        name = attributes.names[j]
        if part == self.d:
            return f"{name} null"
        if attributes.category[j]:
            words = attributes.words(j)
            codes = np.array(list(words), np.float32)
            here = [w for w, p in zip(words.values(), self.parts(codes, j, True), strict=True) if p == part]
            return f"{name} {'|'.join(here) or f'#{part}'}"
        low, high = self.low[j], self.high[j]
        if low is None or high is None:
            return f"{name} #{part}"
        width = (high - low) / self.d
        least, beyond = int(np.ceil(low + part * width - 1e-6)), int(np.ceil(low + (part + 1) * width - 1e-6))
        if attributes.whole[j] and beyond - least <= 1:
            return f"{name} {least if part < self.d - 1 else int(high)}"
        return f"{name} {low + part * width:.4g}–{low + (part + 1) * width:.4g}"

    def snapshot(self) -> dict[str, Any]:
        return {"low": list(self.low), "high": list(self.high)}

    def restore(self, record: dict[str, Any]) -> None:
        self.low, self.high = list(record["low"]), list(record["high"])
