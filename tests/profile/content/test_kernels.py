"""Compiled classification against plain Python: trees, partitions, classes and counts, on random content with nulls."""

from __future__ import annotations

from math import floor, isfinite, isqrt

import numpy as np
import pyarrow as pa
import pytest

from thalweg.optimize.classes.classtable import ClassTable
from thalweg.plan.tree import Comparison, Tree
from thalweg.profile.content.attributes import Attributes
from thalweg.profile.content.classifier import Classifier
from thalweg.profile.content.pairs import Content
from thalweg.profile.content.partcounts import PartCounts
from thalweg.profile.content.partitions import Partitions


def content(seed: int, rows: int = 300) -> pa.RecordBatch:
    random = np.random.default_rng(seed)
    words = np.array(["a", "bb", "ccc", "dddd"])[random.integers(0, 4, rows)]
    gone = random.random((2, rows)) < 0.1
    return pa.record_batch(
        {
            "x": pa.array([None if g else float(v) for g, v in zip(gone[0], random.normal(size=rows), strict=True)]),
            "k": random.integers(-5, 20, rows),
            "word": pa.array([None if g else str(w) for g, w in zip(gone[1], words, strict=True)]),
            "odd": np.where(random.random(rows) < 0.05, np.inf, random.random(rows)),
        }
    )


def random_tree(random: np.random.Generator, values: np.ndarray, depth: int) -> Tree:
    if depth == 0 or random.random() < 0.2:
        return Tree(int(random.integers(0, 5)))
    j = int(random.integers(0, values.shape[1]))
    bound = float(values[random.integers(0, len(values)), j])
    test = Comparison(j, 0.0 if np.isnan(bound) else bound, equal=bool(random.random() < 0.3))
    return Tree(test=test, yes=random_tree(random, values, depth - 1), no=random_tree(random, values, depth - 1))


@pytest.mark.parametrize("seed", range(20))
def test_a_compiled_tree_classifies_as_the_plain_one(seed):
    batch, attributes = content(seed), Attributes()
    values = attributes.look(batch)
    tree = random_tree(np.random.default_rng(seed), values, 4)
    plain = tree.classify(lambda j: values[:, j], len(values)).tolist()
    compiled = Classifier(tree)
    assert compiled.values(values).tolist() == plain
    if tree.test is not None:
        assert compiled.batch(attributes, batch).tolist() == plain
    assert Classifier(tree).batch(attributes, batch.drop_columns(["k"])) is None


def plain_part(value: float, low: float | None, high: float | None, category: bool, d: int) -> int:
    if not isfinite(value):
        return d
    if category:
        turned = value * 0.6180339887498949
        return int((turned - floor(turned)) * d)
    if low is None or high is None or high <= low:
        return 0
    return int(min(max((value - low) * (d / (high - low)), 0.0), d - 1))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("pairs", [False, True])
def test_partitions_classes_and_counts_are_those_of_plain_loops(seed, pairs):
    batch, attributes, partitions, d = content(seed), Attributes(), Partitions(7), 7
    known = Content(attributes, partitions, pairs)
    values = attributes.look(batch)
    random = np.random.default_rng(seed)
    rows = random.choice([-1, 0, 1, 3], (len(values), 3)).astype(np.int8)
    counts = PartCounts(3)
    counts.add(known, values, rows)

    def part(j: int, row: int) -> int:
        each = [
            plain_part(float(values[row, m]), partitions.low[m], partitions.high[m], attributes.category[m], d)
            for m in known.members(j)
        ]
        if len(each) == 1:
            return each[0]
        grid = isqrt(d + 1)
        first, second = (min(p, d - 1) * grid // d for p in each)
        return first * grid + second

    wanted = list(range(len(known)))
    plain = [[part(j, row) for row in range(len(values))] for j in wanted]
    assert known.parts(values, wanted).tolist() == known.parts_of(batch, wanted).tolist() == plain
    for op in range(3):
        for j in wanted:
            taken, through = [0.0] * (d + 1), [0.0] * (d + 1)
            for row in range(len(values)):
                if rows[row, op] >= 0:
                    taken[plain[j][row]] += 1
                    through[plain[j][row]] += int(rows[row, op])
            assert counts.taken[op, j].tolist() == taken
            assert counts.through[op, j].tolist() == through
        tried = rows[rows[:, op] >= 0, op].astype(int)
        assert counts.squares[op] == (tried**2).sum()

    table = ClassTable([0, -1, 2], d)
    half = known.parts(values[:150], table.used)
    table.meet(half)
    codes = [plain[0][row] * (d + 1) + plain[2][row] for row in range(len(values))]
    places = {int(code): k for k, code in enumerate(table.codes)}
    assert sorted(places) == sorted(set(codes[:150]))
    expected = [places.get(code, len(table)) for code in codes]
    for codes in (table.known, (table.codes, table.known[1][:0])):
        assert known.places(values, table.used, codes).tolist() == expected
        assert known.places_of(batch, table.used, codes).tolist() == expected
