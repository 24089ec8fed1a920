"""A decision tree ready to classify: its nodes as flat arrays, which one compiled pass over the columns reads.

Invariant: it gives the classes that `Tree.classify` gives. Only the attributes that the tree tests are read.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.plan.tree import Tree
from thalweg.profile.content.attributes import Attributes, Values

Ids = NDArray[np.int32]


class Classifier:
    """A tree and its nodes.

    >>> from thalweg.plan.tree import Comparison
    >>> tree = Tree(test=Comparison(1, 1.5), yes=Tree(0), no=Tree(test=Comparison(0, 3.0, equal=True), yes=Tree(1), no=Tree(2)))
    >>> Classifier(tree).values(np.array([[0, 1], [3, 2], [4, 2], [3, np.nan]], np.float32)).tolist()
    [0, 1, 2, 1]
    """

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.used = sorted(tree.attributes())
        nodes: list[tuple[int, float, bool, int, int]] = []
        self._flatten(tree, nodes)
        test, bound, equal, yes, no = zip(*nodes, strict=True)
        self._nodes = (
            np.array(test, np.int64), np.array(bound, np.float32), np.array(equal, np.bool_),
            np.array(yes, np.int64), np.array(no, np.int64),
        )  # fmt: skip

    def _flatten(self, tree: Tree, nodes: list[tuple[int, float, bool, int, int]]) -> int:
        at = len(nodes)
        nodes.append((-1, 0.0, False, tree.label, 0))
        if tree.test is not None:
            assert tree.yes is not None
            assert tree.no is not None
            yes = self._flatten(tree.yes, nodes)
            no = self._flatten(tree.no, nodes)
            nodes[at] = (self.used.index(tree.test.attribute), tree.test.value, tree.test.equal, yes, no)
        return at

    def values(self, values: Values) -> Ids:
        """The class of each row, with all attributes in columns."""
        return self._classes(np.ascontiguousarray(values[:, self.used].T))

    def batch(self, attributes: Attributes, batch: pa.RecordBatch) -> Ids | None:
        """The class of each row; None if there is only one class, or the content differs from what was learned."""
        if not self.used or not attributes.known(batch):
            return None
        return self._classes(attributes.lines(batch, self.used))

    def _classes(self, lines: Values) -> Ids:
        if not self.used:
            return np.full(lines.shape[1], self.tree.label, np.int32)
        from thalweg.profile.content import kernels

        out = np.empty(lines.shape[1], np.int32)
        kernels.by_tree(lines, *self._nodes, out)
        return out
