"""Schedules say when a stem is due; migrations say which slices move; both as AMRI's sections 7 and 8 have them."""

from __future__ import annotations

import json

import pytest

from thalweg.errors import DefinitionError
from thalweg.optimize.indexes.layoutcost import Workload
from thalweg.optimize.indexes.migrate import benefit, to_move
from thalweg.optimize.indexes.schedule import SCHEDULES, make
from thalweg.plan.layout import Layout
from thalweg.profile.patterns.stemfacts import SliceFacts
from thalweg.profile.prices import Prices

STEMS = ["r", "s", "t"]


def due_stems(name: str, asked: list[dict[str, int]], window: int = 90, period: int = 300) -> list[list[str]]:
    schedule = make(name, STEMS, window, period)
    due = []
    for requests in asked:
        schedule.observe(requests)
        due.append(schedule.due())
    return due


def steady(rounds: int) -> list[dict[str, int]]:
    return [dict.fromkeys(STEMS, 10)] * rounds


def test_continuous_is_due_after_every_window() -> None:
    assert [bool(d) for d in due_stems("continuous", steady(9))] == [False, False, True] * 3


def test_periodic_assesses_all_at_the_start_of_each_period() -> None:
    due = due_stems("periodic", steady(26))
    assert [k for k, d in enumerate(due) if d] == [2, 12, 22]
    assert all(d in ([], STEMS) for d in due)


def test_triggered_assesses_the_stem_that_changed_most_and_nothing_while_all_is_steady() -> None:
    changed = [{"r": 10, "s": 16, "t": 4}] * 20
    due = due_stems("triggered", steady(30) + changed)
    assert due[2] == STEMS  # nothing is known yet
    assert all(d == [] for d in due[3:40])
    # s has 60 % more requests than before, t 60 % less: the first of them.
    assert [d for d in due[40:] if d] == [["s"]]


def test_hybrid_also_takes_the_stem_that_waited_longest() -> None:
    due = [d for d in due_stems("hybrid", steady(60)) if d]
    assert due[0] == STEMS
    assert due[1:5] == [["r"], ["s"], ["t"], ["r"]]
    changed = due_stems("hybrid", steady(20) + [{"r": 10, "s": 17, "t": 3}] * 16)
    assert any("s" in d and len(d) == 2 for d in changed[20:])


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_restored_schedule_goes_on_alike(name: str) -> None:
    one = make(name, STEMS, 90, 300)
    for requests in steady(17):
        one.observe(requests)
        one.due()
    other = make(name, STEMS, 90, 300)
    other.restore(json.loads(json.dumps(one.snapshot())))
    for requests in [{"r": 30, "s": 2, "t": 5}] * 20:
        one.observe(requests)
        other.observe(requests)
        assert one.due() == other.due()


def test_unknown_schedules_are_refused_by_name() -> None:
    with pytest.raises(DefinitionError, match="no schedule 'hybird'"):
        make("hybird", STEMS, 1, 1)


def test_all_moves_every_other_layout_and_nothing_none() -> None:
    old, new = Layout("bits", (8, 0)), Layout("bits", (0, 8))
    slices = [SliceFacts(3, old, 100, 0.5), SliceFacts(4, new, 100, 1.0)]
    asked = Workload(2, {0b01: 1.0}, 1_000.0, 100.0, 200.0)
    assert to_move("all", slices, new, asked, 1.0) == {3}
    assert to_move("nothing", slices, new, asked, 1.0) == frozenset()


def test_partial_moves_a_slice_if_the_searches_to_come_pay_for_it() -> None:
    old, new = Layout("bits", (8, 0)), Layout("bits", (0, 8))
    asked = Workload(
        2, {0b01: 1.0}, 10.0, 500.0, 1_000.0, Prices(hash=1.0, candidate=4.0, bucket=0.0, insert=6.0, delete=0.0)
    )
    # As it is, a search looks at all 256 rows, then at one; each row moved costs two hashes and an entry.
    searches = 256 * 8 / (4 * 255)
    young, old_one = SliceFacts(1, old, 256, life=0.5), SliceFacts(2, old, 256, life=0.05)
    assert benefit(young, new, asked, windows=1.0) == pytest.approx(256 * 8 * (10 * 0.5 / searches - 1), rel=0.01)
    assert to_move("partial", [young, old_one], new, asked, 1.0) == {1}
    # Tuples that wait count as in the paper.
    waited_for = SliceFacts(2, old, 256, life=0.05, waiting=20)
    assert to_move("partial", [waited_for], new, asked, 1.0) == {2}
