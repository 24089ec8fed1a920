"""Policies with classes are asked and told once per several batches; rows are classified in every batch all the same."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from thalweg.contract.policy import Classifying, Resting
from thalweg.engine.engine import Engine
from thalweg.lab import lookups, star
from thalweg.optimize import make

BATCHES = 120


def run(name: str, batch: int = 1000) -> tuple[dict[str, int], float, int]:
    random = np.random.default_rng(8)
    drawn = star.draw(star.skewed(4, 0.05), BATCHES * batch, random)
    stream, tables = lookups.tables(drawn, random)
    calls: dict[str, int] = {"route": 0, "observe": 0, "assign": 0}
    made = []

    def counting(verb, call, *given):
        calls[verb] += 1
        return call(*given)

    def watched(pipeline, seed):
        policy = make(name, pipeline, seed)
        made.append(policy)
        for verb in calls:
            setattr(policy, verb, partial(counting, verb, getattr(policy, verb)))
        return policy

    engine = Engine(lookups.query(stream, tables), policy=watched, seed=8, tables=tables)
    found = 0
    for start in range(0, len(drawn.bits), batch):
        found += engine.push("s", stream.slice(start, batch)).num_rows
        engine.advance()
    assert found == drawn.bits.all(axis=1).sum()
    assert isinstance(made[0], Resting)
    assert isinstance(made[0], Classifying)
    work = engine.stats()["inputs"]["s"]["work"] / len(drawn.bits)
    return calls, work, len(made[0].plan.routes)


@pytest.mark.parametrize("name", ["cbr", "mesh"])
def test_a_policy_with_classes_is_asked_once_per_several_batches(name):
    calls, work, routes = run(name)
    assert routes == 4
    assert work < 3.2, f"{work:.2f} buckets and candidates a row: one order takes 5, the best of each class 2.2"
    assert BATCHES - 5 < calls["route"] + calls["assign"] <= BATCHES, "without classes the last ruster is used again"
    assert calls["route"] < BATCHES / 2
    assert calls["observe"] < BATCHES / 2


def test_large_batches_are_told_one_by_one_and_profile_several_operators():
    calls, work, routes = run("cbr", 16_000 // 2)
    assert routes == 4
    assert calls["observe"] > BATCHES / 2
    assert work < 2.6
