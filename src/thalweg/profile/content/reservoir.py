"""A reservoir of sampled tuples that forgets exponentially: content, and the verdict of each operator.

A new tuple always enters; the fuller the reservoir, the likelier it takes the place of a random one. So the chance that
a tuple is still there falls exponentially with the tuples after it, at a rate of 1/size (Aggarwal's biased reservoir),
which is what a training sample of a drifting stream needs (query mesh 4.2).
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thalweg.profile.content.attributes import Values

Bits = NDArray[np.int8]


class Reservoir:
    """Values and pass bits of sampled tuples.

    >>> r = Reservoir(size=3, operators=2)
    >>> for i in range(50):
    ...     r.add(np.full((1, 1), i, np.float32), np.ones((1, 2), np.int8), np.random.default_rng(i))
    >>> len(r), float(r.values.min()) > 20
    (3, True)
    """

    def __init__(self, size: int, operators: int) -> None:
        self.size = size
        self.values: Values = np.zeros((0, 0), np.float32)
        self.bits: Bits = np.zeros((0, operators), np.int8)

    def __len__(self) -> int:
        return len(self.bits)

    def add(self, values: Values, bits: Bits, random: np.random.Generator) -> None:
        if values.shape[1] != self.values.shape[1]:
            self.values, self.bits = np.zeros((0, values.shape[1]), np.float32), self.bits[:0]
        filled, places = len(self), []
        for draw, at in random.random((len(values), 2)).tolist():
            if draw < filled / self.size:
                places.append(int(at * filled))
            else:
                places.append(filled)
                filled += 1
        more = filled - len(self)
        self.values = np.concatenate([self.values, np.zeros((more, values.shape[1]), np.float32)])
        self.bits = np.concatenate([self.bits, np.zeros((more, bits.shape[1]), np.int8)])
        for row, at in enumerate(places):  # in order: if two take the same place, the later stays
            self.values[at], self.bits[at] = values[row], bits[row]

    def forget(self, gone: NDArray[np.bool_]) -> None:
        """Remove outdated tuples."""
        self.values, self.bits = self.values[~gone], self.bits[~gone]

    def snapshot(self) -> dict[str, Any]:
        return packed(self.values, self.bits)

    def restore(self, record: dict[str, Any]) -> None:
        self.values, self.bits = unpacked(record, self.bits.shape[1])


def packed(values: Values, bits: Bits) -> dict[str, Any]:
    """Sampled tuples as plain JSON values."""
    return {
        "columns": values.shape[1],
        "values": b64encode(np.ascontiguousarray(values, "<f4").tobytes()).decode(),
        "bits": b64encode(np.ascontiguousarray(bits).tobytes()).decode(),
    }


def unpacked(record: dict[str, Any], operators: int) -> tuple[Values, Bits]:
    """Read what `packed` wrote."""
    bits = np.frombuffer(b64decode(record["bits"]), np.int8)
    rows = len(bits) // operators if operators else 0
    values = np.frombuffer(b64decode(record["values"]), "<f4").astype(np.float32)
    return values.reshape(rows, int(record["columns"])).copy(), bits.reshape(rows, operators).copy()
