"""A reservoir of sampled tuples that forgets exponentially: content and what each operator said of it.

A new tuple always enters; the fuller the reservoir, the likelier it takes the place of a random one. So the chance that
a tuple is still there falls exponentially with the tuples after it, at a rate of 1/size (Aggarwal's biased reservoir),
which is what a training sample of a drifting stream needs (query mesh 4.2).
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thalweg.profile.attributes import Values

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
        draws, places = random.random(len(values)), random.random(len(values))
        kept_values, kept_bits = list(self.values), list(self.bits)
        for row in range(len(values)):
            if draws[row] < len(kept_bits) / self.size:
                at = int(places[row] * len(kept_bits))
                kept_values[at], kept_bits[at] = values[row], bits[row]
            else:
                kept_values.append(values[row])
                kept_bits.append(bits[row])
        if len(values):
            self.values = np.array(kept_values, np.float32).reshape(len(kept_bits), values.shape[1])
            self.bits = np.array(kept_bits, np.int8).reshape(len(kept_bits), bits.shape[1])

    def forget(self, gone: NDArray[np.bool_]) -> None:
        """Tuples that say nothing about now."""
        self.values, self.bits = self.values[~gone], self.bits[~gone]

    def snapshot(self) -> dict[str, Any]:
        return {
            "columns": self.values.shape[1],
            "values": b64encode(np.ascontiguousarray(self.values, "<f4").tobytes()).decode(),
            "bits": b64encode(np.ascontiguousarray(self.bits).tobytes()).decode(),
        }

    def restore(self, record: dict[str, Any]) -> None:
        bits = np.frombuffer(b64decode(record["bits"]), np.int8)
        operators = self.bits.shape[1]
        rows = len(bits) // operators if operators else 0
        self.bits = bits.reshape(rows, operators).copy()
        values = np.frombuffer(b64decode(record["values"]), "<f4").astype(np.float32)
        self.values = values.reshape(rows, int(record["columns"])).copy()
