"""Random queries on random data, under every policy and layout: the engine's rows are those of the definition.

Compared are the rows as a multiset, the step at which each came out, its result time, and how many tuples were late.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from tests.engine.joins.check import check

from thalweg.testing.joins import join_cases, make_case


def test_seeded(chunk, checked, tally):
    tally.add(checked[chunk].result())


@pytest.mark.parametrize("first", range(80_000, 80_036, 12))
def test_long(first, oracle, tally):
    """Hundreds of rows whose selectivities change: slices come and go, and policies change their minds."""
    for seed in range(first, first + 12):
        check(make_case(seed, long=True), oracle, tally)


@pytest.mark.parametrize("inputs", [7, 8, 9, 10])
def test_many_inputs(inputs, oracle, tally):
    before = tally.results
    for seed in range(70_000, 70_016):
        check(make_case(seed, inputs=inputs), oracle, tally)
    assert tally.results > before


@settings(
    max_examples=40, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)  # fmt: skip
@given(case=join_cases(inputs=4))
def test_drawn(oracle, tally, case):
    check(case, oracle, tally)


@pytest.mark.parametrize("policy", ["cbr", "mesh"])
def test_routes_by_class(policy, oracle, tally):
    """The policies that give classes of tuples their own routes."""
    for seed in range(90_000, 90_012):
        check(make_case(seed, policies=[policy], long=seed % 3 == 0), oracle, tally)
