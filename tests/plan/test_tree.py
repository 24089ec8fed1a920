"""Classifying a batch at once is walking the tree with each row; pruned and recorded trees say the same."""

from __future__ import annotations

import json

import numpy as np
import pytest

from thalweg.plan.tree import Comparison, Tree


def random_tree(random: np.random.Generator, depth: int) -> Tree:
    if depth == 0 or random.random() < 0.2:
        return Tree(int(random.integers(5)))
    test = Comparison(int(random.integers(3)), float(random.integers(4)), bool(random.random() < 0.3))
    return Tree(test=test, yes=random_tree(random, depth - 1), no=random_tree(random, depth - 1))


def walk(tree: Tree, row: np.ndarray) -> int:
    while tree.test is not None:
        x = row[tree.test.attribute]
        tree = tree.yes if (x == tree.test.value if tree.test.equal else x <= tree.test.value) else tree.no
    return tree.label


@pytest.mark.parametrize("seed", range(10))
def test_at_once_is_row_by_row(seed):
    random = np.random.default_rng(seed)
    tree = random_tree(random, 4)
    x = random.integers(0, 4, (300, 3)).astype(np.float32)
    x[random.random((300, 3)) < 0.1] = np.nan
    expected = [walk(tree, row) for row in x]
    assert tree.classify(lambda j: x[:, j], 300).tolist() == expected
    assert Tree.of(json.loads(json.dumps(tree.record()))) == tree
    names = {k: k // 2 for k in range(5)}
    assert tree.relabelled(names).classify(lambda j: x[:, j], 300).tolist() == [names[k] for k in expected]


def test_no_rows():
    assert random_tree(np.random.default_rng(1), 3).classify(lambda j: np.zeros(0, np.float32), 0).tolist() == []
