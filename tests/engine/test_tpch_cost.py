"""What a batch costs a query that is kept up to date follows the batch, not the history: rows are counted, not seconds.

Orders come with their lines, in the order of their keys, so every batch meets as much as the one before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest
from benchmarks.tpch.feed import cut, engine_of, generate, push

import thalweg as tw
from thalweg.contract.relation import Changes, Derived
from thalweg.relate import match

BATCHES = 9
SLACK = 1.3
"""Batches differ a little; those of the last third find more than twice the history of those of the first."""


class Counted:
    """An operator, and the rows of its inputs and of its changes."""

    def __init__(self, operator: Derived) -> None:
        self.operator, self.schema, self.rows = operator, operator.schema, 0

    def step(self, inputs: Sequence[Changes], frontier: int) -> Changes:
        changes = self.operator.step(inputs, frontier)
        self.rows += sum(len(c.sign) for c in (*inputs, changes))
        return changes

    def __getattr__(self, name: str) -> Any:
        return getattr(self.operator, name)


class Work:
    """Rows that an engine has touched: joined in blocks, taken and given by operators, compared in pairs."""

    def __init__(self, engine: tw.Engine) -> None:
        self.engine = engine
        relations = engine.runner.relations  # type: ignore[union-attr]
        assert relations is not None
        self.operators = [Counted(o) for o in relations.operators.values()]
        relations.operators.update(zip(list(relations.operators), self.operators, strict=True))

    @property
    def rows(self) -> float:
        inputs = self.engine.stats()["inputs"].values()
        return sum(i["work"] for i in inputs) + sum(o.rows for o in self.operators)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pa.Table]:
    return generate("0.005", tmp_path_factory.mktemp("tpch"))


@pytest.fixture
def pairs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many pairs of rows each match compared."""
    seen: list[int] = []
    find = match.find_pairs

    def counting(*arrays: Any) -> Any:
        found = find(*arrays)
        seen.append(len(found))
        return found

    monkeypatch.setattr(match, "find_pairs", counting)
    return seen


def growth(costs: Sequence[float]) -> float:
    """The last third of the batches relative to the first; the very first reads the tables."""
    third = len(costs) // 3
    return sum(costs[-third:]) / sum(costs[1 : third + 1])


@pytest.mark.parametrize("name", ["q01", "q03", "q05", "q09", "q13", "q18", "q21"])
def test_a_batch_costs_what_it_brings(name: str, data: Mapping[str, pa.Table], pairs: list[int]) -> None:
    engine = engine_of(name, data)
    work, costs, before = Work(engine), [], 0.0
    for k, parts in enumerate(cut(data, BATCHES)):
        push(engine, k, parts)
        costs.append(work.rows + sum(pairs) - before)
        before += costs[-1]
    assert min(costs) > 0
    assert growth(costs) < SLACK, f"rows touched by batch: {costs}"


def test_the_count_tells_a_query_that_is_answered_anew(data: Mapping[str, pa.Table]) -> None:
    costs = []
    parts = cut(data, BATCHES)
    for k in range(BATCHES):
        work = Work(engine_of("q03", data))
        for j in range(k + 1):
            push(work.engine, j, parts[j])
        costs.append(work.rows)
    assert growth(costs) > 2
