"""Plans, rusters and events are values: versions grow by one, nothing can be changed in place."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import FrozenInstanceError

import pytest

from thalweg.plan import Change, Event, Plan, Reason, Route, Routes, Ruster
from thalweg.plan.layout import Layout


def test_every_change_is_a_new_version() -> None:
    first = Routes.single(Route((0, 1)))
    second = first.with_routes({"": Route((1, 0))})
    third = second.with_routes({"hot": Route((1, 0)), "cold": Route((0, 1))})
    assert [first.version, second.version, third.version] == [0, 1, 2]
    assert first.route == Route((0, 1)), "the old plan is what it was"
    assert third.route == Route((1, 0)), "of several routes the first"


def test_a_plan_can_not_be_changed() -> None:
    routes = {"": Route((0, 1))}
    plan = Routes(3, routes)
    routes[""] = Route((1, 0))
    assert plan.route == Route((0, 1)), "the caller's mapping is not the plan's"
    with pytest.raises(TypeError):
        plan.routes[""] = Route((1, 0))  # type: ignore[index]
    with pytest.raises(FrozenInstanceError):
        plan.version = 4  # type: ignore[misc]


@pytest.mark.parametrize("through", [lambda p: pickle.loads(pickle.dumps(p)), copy.deepcopy, copy.copy])
def test_a_plan_travels(through) -> None:
    plan = Routes(3, {"hot": Route((1, 0)), "cold": Route((0, 1))})
    twin = through(plan)
    assert twin == plan
    with pytest.raises(TypeError):
        twin.routes["hot"] = Route((0, 1))


def test_a_ruster_is_itself_only() -> None:
    # Rows are an array: comparing rusters by value would be a trap.
    assert Ruster(None, Route((0,))) != Ruster(None, Route((0,)))


def test_an_event_as_a_record_is_json() -> None:
    change = Change("routes", "s", {"": ("a", "b")}, {"hot": ("b", "a"), "": ("a", "b")}, 2.5, 1.5)
    event = Event("agreedy", "reorder", 4, 1000, Reason.of("'{first}' drops more", first="b"), change)
    assert json.loads(json.dumps(event.record()))["change"]["cost_after"] == 1.5
    assert Event.of(json.loads(json.dumps(event.record()))) == event
    assert str(event.why) == "'b' drops more"


def test_a_layout_changes_like_a_route() -> None:
    change = Change("layouts", "s", Layout("hash"), Layout("bits", (3, 2)), slices=frozenset({4, 1}))
    assert Change.of(json.loads(json.dumps(change.record()))) == change
    plan = Plan(layouts={"s": Layout("hash"), "t": Layout("hash")}).apply(change)
    assert (plan.version, plan.layouts["s"].bits, plan.layouts["t"].kind) == (1, (3, 2), "hash")


def test_a_part_that_changes_to_nothing_is_gone() -> None:
    plan = Plan(caches={"c": "somewhere"})
    assert not plan.apply(Change("caches", "c", "somewhere", None)).caches


def test_a_whole_plan_travels_and_can_not_be_changed() -> None:
    plan = Plan(2, {"a": {"": ("b", "c")}}, pinned=frozenset({"a"}))
    assert pickle.loads(pickle.dumps(plan)) == plan
    assert plan.route() == plan.route("a") == ("b", "c")
    with pytest.raises(TypeError):
        plan.routes["a"] = {}  # type: ignore[index]


def test_routes_name_their_operators() -> None:
    assert Route((2, 0, 1)).named("abc") == "c → a → b"
    assert list(Route((2, 0))) == [2, 0]
    assert len(Route(())) == 0
