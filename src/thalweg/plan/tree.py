"""A decision tree over attributes: which class a tuple belongs to (query mesh 4.4). An immutable value.

Invariant: every tuple reaches exactly one leaf; a null fails every test. A batch is classified as a whole: each test is
one comparison over the rows that reach it, so a small tree costs a few vector operations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Column = Callable[[int], NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Compares one attribute with a bound, or for equality if its values have no order."""

    attribute: int
    value: float
    equal: bool = False

    def holds(self, column: NDArray[np.float32]) -> NDArray[np.bool_]:
        value = np.float32(self.value)
        return np.asarray(column == value if self.equal else column <= value)


@dataclass(frozen=True, slots=True)
class Tree:
    """A leaf with a class number, or a test with a tree for each outcome.

    >>> tree = Tree(test=Comparison(0, 1.5), yes=Tree(7), no=Tree(test=Comparison(1, 3.0, equal=True), yes=Tree(8), no=Tree(9)))
    >>> x = np.array([[1, 0], [2, 3], [2, 4], [np.nan, 3]], np.float32)
    >>> tree.classify(lambda j: x[:, j], 4).tolist()
    [7, 8, 9, 8]
    >>> tree.relabelled({7: 1, 8: 2, 9: 2}).text(["a", "b"])
    'a <= 1.5 ? 1 : 2'
    """

    label: int = 0
    test: Comparison | None = None
    yes: Tree | None = None
    no: Tree | None = None

    def classify(self, column: Column, rows: int) -> NDArray[np.int64]:
        """The class of each row; `column(j)` gives attribute j of all rows."""
        out = np.empty(rows, np.int64)
        self._classify(column, None, out)
        return out

    def _classify(self, column: Column, rows: NDArray[np.int64] | None, out: NDArray[np.int64]) -> None:
        if self.test is None:
            out[slice(None) if rows is None else rows] = self.label
            return
        assert self.yes is not None
        assert self.no is not None
        values = column(self.test.attribute)
        holds = self.test.holds(values if rows is None else values[rows])
        if rows is None:
            self.yes._classify(column, np.flatnonzero(holds), out)
            self.no._classify(column, np.flatnonzero(~holds), out)
        else:
            self.yes._classify(column, rows[holds], out)
            self.no._classify(column, rows[~holds], out)

    def leaves(
        self, path: tuple[tuple[Comparison, bool], ...] = ()
    ) -> Iterator[tuple[int, tuple[tuple[Comparison, bool], ...]]]:
        """Each leaf's class, and the tests on its path with their outcomes."""
        if self.test is None:
            yield self.label, path
            return
        assert self.yes is not None
        assert self.no is not None
        yield from self.yes.leaves((*path, (self.test, True)))
        yield from self.no.leaves((*path, (self.test, False)))

    def relabelled(self, labels: Mapping[int, int]) -> Tree:
        """The tree with new classes at its leaves; drops tests whose two sides agree."""
        if self.test is None:
            return Tree(labels[self.label])
        assert self.yes is not None
        assert self.no is not None
        yes, no = self.yes.relabelled(labels), self.no.relabelled(labels)
        if yes == no:
            return yes
        return Tree(test=self.test, yes=yes, no=no)

    def attributes(self) -> set[int]:
        return {t.attribute for _, path in self.leaves() for t, _ in path}

    def text(self, names: list[str], word: Callable[[int, float], str] = lambda j, value: f"{value:g}") -> str:
        """The tree in one line."""
        if self.test is None:
            return str(self.label)
        assert self.yes is not None
        assert self.no is not None
        yes, no = self.yes.text(names, word), self.no.text(names, word)
        inner = f"({yes})" if self.yes.test else yes
        return f"{told(self.test, True, names, word)} ? {inner} : {no}"

    def record(self) -> Any:
        """As plain JSON values."""
        if self.test is None:
            return self.label
        assert self.yes is not None
        assert self.no is not None
        return [self.test.attribute, self.test.value, self.test.equal, self.yes.record(), self.no.record()]

    @classmethod
    def of(cls, record: Any) -> Tree:
        if not isinstance(record, list):
            return cls(int(record))
        attribute, value, equal, yes, no = record
        return cls(test=Comparison(int(attribute), float(value), bool(equal)), yes=cls.of(yes), no=cls.of(no))


def told(test: Comparison, holds: bool, names: list[str], word: Callable[[int, float], str]) -> str:
    """A test as text.

    >>> told(Comparison(0, 2.0), False, ["size"], lambda j, value: f"{value:g}")
    'size > 2'
    """
    sign = ("=" if holds else "≠") if test.equal else ("<=" if holds else ">")
    return f"{names[test.attribute]} {sign} {word(test.attribute, test.value)}"
