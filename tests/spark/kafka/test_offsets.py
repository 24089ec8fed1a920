"""How a batch's share is cut: against the plain rules, on random positions."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from thalweg.spark.kafka.offsets import admit, from_json, ranges, to_json

PLACES = st.tuples(st.sampled_from(["a", "b", "c.d"]), st.integers(0, 4))
LOGS = st.dictionaries(PLACES, st.tuples(st.integers(0, 50), st.integers(0, 60)), min_size=1)


@given(LOGS)
def test_positions_survive_the_checkpoint(logs):
    offsets = {place: start for place, (start, _) in logs.items()}
    assert from_json(json.loads(json.dumps(to_json(offsets)))) == offsets


@given(LOGS, st.integers(1, 300))
def test_a_batch_is_full_and_never_more_than_that(logs, limit):
    start = {place: s for place, (s, _) in logs.items()}
    latest = {place: s + n for place, (s, n) in logs.items()}
    end = admit(start, latest, limit)
    waiting = sum(n for _, n in logs.values())
    taken = {place: end[place] - start[place] for place in start}
    assert sum(taken.values()) == min(limit, waiting)
    for place, (_, n) in logs.items():
        assert 0 <= taken[place] <= n
        if waiting > limit:
            assert abs(taken[place] - limit * n / waiting) < 1, "not its share"


@given(LOGS, st.integers(1, 20))
def test_every_waiting_record_is_read_in_the_end(logs, limit):
    place = {p: s for p, (s, _) in logs.items()}
    latest = {p: s + n for p, (s, n) in logs.items()}
    for _ in range(sum(n for _, n in logs.values()) // limit + 1):
        place = admit(place, latest, limit)
    assert place == latest


def test_without_a_limit_everything_is_taken():
    assert admit({("a", 0): 3}, {("a", 0): 9, ("a", 1): 4}, None) == {("a", 0): 9, ("a", 1): 4}


def test_a_log_that_became_shorter_is_told_as_it_is():
    assert admit({("a", 0): 100, ("a", 1): 0}, {("a", 0): 7, ("a", 1): 50}, 10) == {("a", 0): 7, ("a", 1): 10}


@given(LOGS, st.none() | st.integers(1, 30))
def test_ranges_hold_every_record_once(logs, pieces):
    start = {place: s for place, (s, _) in logs.items()}
    end = {place: s + n for place, (s, n) in logs.items()}
    cut = ranges(start, end, pieces)
    read = [(r.topic, r.partition, o) for r in cut for o in range(r.start, r.end)]
    assert sorted(read) == sorted((t, p, o) for (t, p), s in start.items() for o in range(s, end[t, p]))
    assert all(r.start < r.end for r in cut)
    waiting = sum(n for _, n in logs.values())
    assert len(cut) >= min(pieces or 0, waiting), "too few tasks"
    assert len(cut) <= (pieces or 0) + len(logs), "too many tasks"
