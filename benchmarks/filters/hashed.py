"""Predicates of known cost: md5 of five-digit numbers, nested or over repeated text.

A predicate passes iff the digest sorts before '8', so about half of the 90,000 numbers pass. To make a column with any
pattern of verdicts, each value is drawn from the passing or the failing half. Verdicts are kept on disk, because hashing
all numbers takes seconds. All 90,000 values are used, and parquet is written without dictionaries: otherwise, engines
that evaluate once per dictionary entry would hide the order of the predicates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import md5
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

CACHE = Path("out/benchmarks/filters")
FIRST, COUNT = 10_000, 90_000


@dataclass(frozen=True)
class Hashed:
    """A family of predicates: md5 applied `times` times in a row, or once to the number written `times` times.

    >>> nested = Hashed("nested", 2)
    >>> nested.function()(12345) == (md5(md5(b"12345").hexdigest().encode()).hexdigest() < "8")
    True
    >>> nested.weight, Hashed("repeated", 500).weight
    (2.0, 2.5)
    """

    kind: Literal["nested", "repeated"]
    times: int

    @property
    def weight(self) -> float:
        """Work of one call, in md5 calls if nested, in KB hashed if repeated."""
        return float(self.times) if self.kind == "nested" else 5 * self.times / 1000

    @property
    def unit(self) -> str:
        return "md5" if self.kind == "nested" else "KB"

    def function(self) -> Callable[[int], bool]:
        """The predicate as a closure, so that Spark ships its code and workers import nothing of ours."""
        times = self.times

        def nested(x: int) -> bool:
            text = str(x)
            for _ in range(times):
                text = md5(text.encode()).hexdigest()
            return text < "8"

        def repeated(x: int) -> bool:
            return md5((str(x) * times).encode()).hexdigest() < "8"

        return nested if self.kind == "nested" else repeated

    def verdicts(self) -> NDArray[np.bool_]:
        """Whether each number FIRST, FIRST + 1, ... passes."""
        path = CACHE / f"verdicts-{self.kind}-{self.times}.npy"
        if path.exists():
            return np.asarray(np.load(path))
        judge = self.function()
        passes = np.fromiter(map(judge, range(FIRST, FIRST + COUNT)), np.bool_, COUNT)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial.npy")
        np.save(partial, passes)
        partial.rename(path)
        return passes

    def values(
        self, bits: NDArray[np.bool_], u: NDArray[np.float64], order: NDArray[np.int64] | None = None
    ) -> NDArray[np.int32]:
        """Numbers with these verdicts: u in [0, 1) picks one of the passing or failing numbers, taken in `order`."""
        numbers = FIRST + (np.arange(COUNT) if order is None else order)
        passes = self.verdicts()[numbers - FIRST]
        yes, no = numbers[passes], numbers[~passes]
        picked = np.where(bits, yes[(u * len(yes)).astype(np.int64)], no[(u * len(no)).astype(np.int64)])
        return picked.astype(np.int32)
