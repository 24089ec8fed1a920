"""Random queries on random data, under every policy and layout: the engine's rows are those of the definition.

Compared are the rows as a multiset, the step at which each came out, its result time, and how many tuples were late.
"""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from tests.joins.harness import check

from thalweg.testing.joins import join_cases, make_case


def test_seeded(chunk, oracle, tally):
    for seed in chunk:
        check(make_case(seed), oracle, tally)


@settings(
    max_examples=40, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)  # fmt: skip
@given(case=join_cases(inputs=4))
def test_drawn(oracle, tally, case):
    check(case, oracle, tally)
