"""A rehearsal calls each predicate once for each row, and what it says of other ways is what they would have done."""

from __future__ import annotations

import json
from itertools import permutations

import numpy as np
import pyarrow as pa
import pytest

from thalweg.engine.rehearse import Rehearsal, rehearse
from thalweg.errors import PredicateError
from thalweg.execute.filters import Filter
from thalweg.plan import Operator, Pipeline


class Counted:
    """A predicate over `id` that counts its calls."""

    def __init__(self, function):
        self.function, self.seen = function, []

    def __call__(self, id):
        self.seen.append(id)
        return self.function(id)


def rehearsed(functions, rows=5000, after=None, **options):
    counted = {name: Counted(f) for name, f in functions.items()}
    names = list(functions)
    guards = {n: frozenset(names.index(g) for g in (after or {}).get(n, ())) for n in names}
    pipeline = Pipeline("x", tuple(Operator(n, after=guards[n]) for n in names))
    filters = [Filter(n, f, ("id",)) for n, f in counted.items()]
    batches = [pa.record_batch({"id": np.arange(k, min(k + 1500, rows))}) for k in range(0, rows, 1500)]
    return rehearse(pipeline, filters, batches, **options), counted


def calls_in_order(functions, order, rows):
    """By hand: what stopping at the first predicate that drops a row costs."""
    calls = dict.fromkeys(functions, 0)
    for id in range(rows):
        for name in order:
            calls[name] += 1
            if not functions[name](id):
                break
    return tuple(calls[n] for n in functions)


THREE = {"most": lambda id: id % 10 != 0, "half": lambda id: id % 2 == 0, "few": lambda id: id % 50 == 0}


def test_every_way_has_the_calls_that_it_would_make():
    found, counted = rehearsed(THREE, policy="agreedy")  # it reorders however cheap the predicates are
    assert all(c.seen == list(range(5000)) for c in counted.values())
    assert found.rows == 5000
    assert found.kept == sum(all(f(i) for f in THREE.values()) for i in range(5000)) == 0
    assert found.spark.calls == (5000, 5000, 5000)
    assert found.written.calls == calls_in_order(THREE, THREE, 5000)
    assert found.order[0] == "few"
    best = min(sum(calls_in_order(THREE, order, 5000)) for order in permutations(THREE))
    assert best <= found.learned.total < found.learning.total < found.written.total
    assert [(p.asked, p.held) for p in found.predicates] == [(5000, 4500), (5000, 2500), (5000, 100)]


def test_seconds_are_calls_at_the_measured_costs():
    found, _ = rehearsed(THREE)
    costs = [p.cost for p in found.predicates]
    for way in (found.spark, found.written, found.learned):
        assert way.seconds == pytest.approx(sum(n * c for n, c in zip(way.calls, costs, strict=True)))


def test_the_written_policy_saves_nothing_against_itself():
    found, _ = rehearsed(THREE, policy="written")
    assert found.written.calls == found.learning.calls == found.learned.calls


def test_a_guarded_predicate_is_called_only_where_its_guards_hold():
    after = {"inverse": ["nonzero"]}
    found, counted = rehearsed(
        {"inverse": lambda id: 1 / (id % 3) > 0.6, "nonzero": lambda id: id % 3 != 0}, after=after
    )
    assert all(id % 3 for id in counted["inverse"].seen)
    assert found.predicates[0].raised == 0
    assert found.order == ("nonzero", "inverse")


def test_errors_of_rows_that_others_drop_are_counted():
    found, _ = rehearsed({"inverse": lambda id: 1 / (id % 3) > 0.6, "nonzero": lambda id: id % 3 != 0})
    assert found.predicates[0].raised == 1667
    assert found.kept == 1667


def test_an_error_that_the_query_would_raise_is_raised():
    with pytest.raises(PredicateError, match="'inverse' raised ZeroDivisionError"):
        rehearsed({"inverse": lambda id: 1 / (id % 3) > 0.6, "all": lambda id: True})


def test_the_sample_ends_when_the_time_is_up():
    found, counted = rehearsed(THREE, seconds=0.0)
    assert 0 < found.rows < 1500
    assert found.rows == len(counted["few"].seen)


def test_no_rows():
    assert rehearsed(THREE, rows=0)[0] is None


def test_a_rehearsal_travels_as_json():
    found, _ = rehearsed(THREE)
    assert Rehearsal.of(json.loads(json.dumps(found.record()))) == found
