"""Assessments of access patterns: guarantees on random requests, memory bounds, and the example of AMRI's table 2."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thalweg.errors import DefinitionError
from thalweg.profile.patterns.cdia import Cdia, Combination
from thalweg.profile.patterns.csria import Csria
from thalweg.profile.patterns.dia import Dia, parents
from thalweg.profile.patterns.patterns import Assessment, attributes_of, benefits, mask_of, named
from thalweg.profile.patterns.sria import Sria

ATTRIBUTES = 4
COMPACT: dict[str, Callable[..., Csria]] = {
    "csria": Csria,
    "cdia-random": lambda *a, **k: Cdia(*a, combination="random", **k),
    "cdia-highest": lambda *a, **k: Cdia(*a, combination="highest", **k),
}
TABLE_2 = {0b100: 4, 0b010: 10, 0b001: 10, 0b110: 4, 0b101: 16, 0b011: 10, 0b111: 46}
"""Percent of the requests by pattern."""

requests = st.lists(st.tuples(st.integers(1, 2**ATTRIBUTES - 1), st.integers(1, 60)), min_size=1, max_size=60)
rates = st.sampled_from([(0.5, 0.6), (0.1, 0.2), (0.05, 0.1), (0.02, 0.3), (0.01, 0.05)])


def told(assessment: Assessment, batches: Sequence[tuple[int, int]]) -> Counter[int]:
    truth: Counter[int] = Counter()
    for mask, count in batches:
        assessment.observe(mask, count)
        truth[mask] += count
    return truth


@pytest.mark.parametrize("make", [Sria, Dia])
@given(batches=requests)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_without_compression_counts_are_exact(make: Callable[[int], Sria], batches: list[tuple[int, int]]) -> None:
    assessment = make(ATTRIBUTES)
    truth = told(assessment, batches)
    assert assessment.counts == truth
    assert math.isclose(sum(assessment.frequencies().values()), 1.0)


@pytest.mark.parametrize("name", COMPACT)
@given(batches=requests, rate=rates)
@settings(max_examples=120, deadline=None, derandomize=True)
def test_every_frequent_pattern_is_found_and_none_is_far_too_low(
    name: str, batches: list[tuple[int, int]], rate: tuple[float, float]
) -> None:
    epsilon, theta = rate
    assessment = COMPACT[name](ATTRIBUTES, epsilon, theta)
    truth = told(assessment, batches)
    total, found = truth.total(), assessment.frequencies()
    assert assessment.requests == total
    for mask, count in truth.items():
        kept, delta = assessment.counts.get(mask, (0, 0))
        if mask in assessment.counts:
            assert count <= kept + delta
            assert delta <= epsilon * total + 1e-9
        if count >= theta * total:
            assert mask in found
            assert found[mask] >= count / total - epsilon - 1e-9
    for mask, share in found.items():
        # Never more than the requests that an index on the pattern helps; CSRIA never more than the pattern's own.
        helped = sum(c for m, c in truth.items() if (m == mask if name == "csria" else benefits(mask, m)))
        assert share <= helped / total + 1e-9
    assert sum(found.values()) <= 1 + 1e-9


@pytest.mark.parametrize("combination", ["random", "highest"])
@given(batches=requests, rate=rates)
@settings(max_examples=80, deadline=None, derandomize=True)
def test_folding_loses_no_request(
    combination: Combination, batches: list[tuple[int, int]], rate: tuple[float, float]
) -> None:
    cdia = Cdia(ATTRIBUTES, *rate, combination=combination)
    truth = told(cdia, batches)
    assert sum(count for count, _ in cdia.counts.values()) == truth.total()


@given(batches=requests, rate=rates)
@settings(max_examples=80, deadline=None, derandomize=True)
def test_many_requests_at_once_count_as_one_by_one(batches: list[tuple[int, int]], rate: tuple[float, float]) -> None:
    at_once, plain = Csria(ATTRIBUTES, *rate), _LossyCounting(*rate)
    for mask, count in batches:
        at_once.observe(mask, count)
        for _ in range(count):
            plain.observe(mask)
        assert {m: tuple(e) for m, e in at_once.counts.items()} == plain.entries


class _LossyCounting:
    """Manku and Motwani's algorithm as printed, one request at a time."""

    def __init__(self, epsilon: float, theta: float) -> None:
        self.width = round(1 / epsilon)
        self.seen = 0
        self.entries: dict[int, tuple[int, int]] = {}

    def observe(self, mask: int) -> None:
        self.seen += 1
        segment = math.ceil(self.seen / self.width)
        count, delta = self.entries.get(mask, (0, segment - 1))
        self.entries[mask] = (count + 1, delta)
        if self.seen % self.width == 0:
            self.entries = {m: (c, d) for m, (c, d) in self.entries.items() if c + d > segment}


@pytest.mark.parametrize("name", COMPACT)
@pytest.mark.parametrize("epsilon", [0.05, 0.02])
def test_memory_is_bounded_whatever_the_number_of_patterns(name: str, epsilon: float) -> None:
    attributes = 12
    random = np.random.default_rng(14)
    assessment = COMPACT[name](attributes, epsilon, 0.1)
    levels = 1 if name == "csria" else attributes
    most = 0
    masks = random.integers(1, 1 << attributes, 4_000)
    for n, mask in enumerate(masks, 1):
        assessment.observe(int(mask))
        bound = levels / epsilon * max(math.log(epsilon * n), 1.0) + 1 / epsilon
        assert len(assessment) <= bound
        most = max(most, len(assessment))
    assert most < (1 << attributes) / 2


def test_table_2_as_printed() -> None:
    csria, cdia = Csria(3, 0.001, 0.05), Cdia(3, 0.001, 0.05, combination="random", seed=1)
    for mask, percent in TABLE_2.items():
        for assessment in (csria, cdia):
            assessment.observe(mask, 10 * percent)
    # CSRIA deletes the two patterns of 4 %; CDIA adds the one to the other, which then is above θ.
    assert set(csria.frequencies()) == set(TABLE_2) - {0b100, 0b110}
    assert cdia.frequencies() == pytest.approx(
        {0b100: 0.08, 0b010: 0.10, 0b001: 0.10, 0b101: 0.16, 0b011: 0.10, 0b111: 0.46}
    )


@pytest.mark.parametrize("make", [Sria, Dia, *COMPACT.values()])
def test_a_restored_assessment_goes_on_alike(make: Callable[[int], Csria]) -> None:
    random = np.random.default_rng(3)
    one, other = make(ATTRIBUTES), make(ATTRIBUTES)
    for mask in random.integers(1, 16, 500):
        one.observe(int(mask))
    other.restore(json.loads(json.dumps(one.snapshot())))
    for mask in random.integers(1, 16, 500):
        one.observe(int(mask))
        other.observe(int(mask))
    assert one.frequencies() == other.frequencies()
    assert one.snapshot() == other.snapshot()
    one.reset()
    assert (len(one), one.requests) == (0, 0)


def test_masks_read_as_in_the_paper() -> None:
    assert mask_of([0], 3) == 4
    assert mask_of([1, 2], 3) == 3
    assert all(mask_of(attributes_of(m, 5), 5) == m for m in range(32))
    assert named(0b110, ["A1", "A2", "A3"]) == "⟨A1, A2, *⟩"
    assert sorted(parents(0b111)) == [0b011, 0b101, 0b110]


def test_an_error_rate_must_be_below_the_threshold() -> None:
    with pytest.raises(DefinitionError, match="do not fit"):
        Csria(3, 0.1, 0.1)
