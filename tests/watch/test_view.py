"""The view's cursor and the handle: one of each for filters and joins, on recorded reports and without Spark."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.watch import reported

from thalweg.errors import DefinitionError
from thalweg.plan import Change, Event, Plan, Reason
from thalweg.plan.layout import Layout
from thalweg.spark.board import Entry
from thalweg.spark.control import Control
from thalweg.watch import report
from thalweg.watch.handle import QueryHandle

FILTER, JOIN = reported.filters, reported.joined


ENTRIES: dict[int, Entry] = {}
"""Of the handles made here."""


def handle(asked, reports, tmp_path) -> QueryHandle:
    entry = Entry(asked, Control(str(tmp_path), "q"), reported.history(reports))
    made = QueryHandle(entry)
    ENTRIES[id(made)] = entry
    return made


def add(handle: QueryHandle, *reports) -> None:
    ENTRIES[id(handle)].add([json.dumps(r.record()) for r in reports])


def test_a_cursor_gives_only_what_came_after_it(tmp_path):
    query = handle(JOIN(), [reported.packed(0, "a", 300), reported.cell(0, 0, 250)], tmp_path)
    first = query.view()
    assert [b.number for b in first.recent] == [0]
    assert not query.view(since=first.cursor).recent
    add(query, reported.packed(1, "a", 20))
    add(query, reported.cell(1, 0, 260, events=[reported.moved()], loaded="warm"))
    second = query.view(since=first.cursor)
    (batch,) = second.recent
    assert (batch.number, batch.filtered("a").rows_in) == (1, 20)
    assert batch.joined("a").rows_in == 10, "cells count from the start, a batch only what it added"
    assert batch.joined("a").operator("b").rows_out == 20
    assert (batch.joined("a").stored, batch.joined("c").needed) == (80, 35)
    assert [(e.batch, e.after) for e in second.events] == [(1, "c → b")]
    assert second.input("a").rows_in == 320
    query.freeze()
    third = query.view(since=second.cursor)
    assert not third.recent
    assert [e.kind for e in third.events] == ["freeze"] * 3, "what the user decides moves the cursor too"
    assert not query.view(since=third.cursor).events
    assert len(query.events()) == len(query.view().events) == 4


def test_totals_from_before_the_first_report_are_not_taken_for_a_batch(tmp_path):
    query = handle(JOIN(), [reported.cell(7, 0, 250, loaded="state")], tmp_path)
    (batch,) = query.view().recent
    assert (batch.joined("a").rows_in, batch.joined("a").stored) == (0, 80)
    assert query.view().rows_in == 750


def test_rows_of_tables_do_not_count_as_rows_that_came(tmp_path):
    asked = JOIN()
    stream, *tables = asked.inputs
    looked_up = replace(asked, inputs=(stream, *(replace(t, window=None) for t in tables)))
    assert handle(looked_up, [reported.cell(0, 0, 250)], tmp_path).view().rows_in == 250
    all_tables = replace(asked, inputs=tuple(replace(i, window=None) for i in asked.inputs))
    assert handle(all_tables, [reported.cell(0, 0, 250)], tmp_path).view().rows_in == 750


def test_tasks_of_a_batch_are_added_up(tmp_path):
    query = handle(FILTER(), reported.two_batches(), tmp_path)
    first, second = query.view().recent
    assert [b.filtered("").rows_in for b in (first, second)] == [1000, 1000]
    assert [o.calls for o in second.filtered("").operators] == [460, 220, 700]
    assert second.filtered("").routing.route == ("listed", "is_attack", "parses"), "of the task with the most rows"
    (path,) = query.view().filters
    assert [r.flow for r in path.routes] == [((600, 60), (60, 20), (20, 10)), ((400, 200), (200, 100), (100, 40))]


@pytest.mark.parametrize(
    ("asked", "reports", "routes"),
    [
        (FILTER(), reported.two_batches(), {"": {"": ("listed", "is_attack", "parses")}}),
        (FILTER(), [], {"": {"": ("is_attack", "parses", "listed")}}),
        (JOIN(), [reported.cell(0, 1, 9)], {"a": {"": ("b", "c")}, "b": {"": ("c", "a")}, "c": {"": ("b", "a")}}),
        (JOIN(), [], {"a": {"": ("b", "c")}, "b": {"": ("a", "c")}, "c": {"": ("b", "a")}}),
    ],
)
def test_a_plan_has_one_type(tmp_path, asked, reports, routes):
    query = handle(asked, reports, tmp_path)
    plan = query.plan()
    assert isinstance(plan, Plan)
    assert {alias: dict(r) for alias, r in plan.routes.items()} == routes
    assert not plan.pinned
    pinned = query.freeze()
    assert pinned.routes == plan.routes
    assert pinned.pinned == set(routes)


def test_a_plan_has_the_layouts_that_a_tuner_chose(tmp_path):
    chosen = Layout("bits", (3, 1))
    tuned = Event("amri", "index", 1, 9, Reason("fewer probes"), Change("layouts", "b", Layout("bits"), chosen))
    assert handle(JOIN(), [reported.cell(0, 0, 9, events=[tuned])], tmp_path).plan().layouts == {"b": chosen}


def test_freeze_takes_a_list_for_a_filter_and_a_mapping_for_a_join(tmp_path):
    filters, join = handle(FILTER(), [], tmp_path / "f"), handle(JOIN(), [], tmp_path / "j")
    for wrong in ({"a": ["parses"]}, {}):
        with pytest.raises(DefinitionError, match="a list of names") as error:
            filters.freeze(wrong)
        assert "freeze(['is_attack', 'parses', 'listed'])" in str(error.value)
    for wrong in ("parses", 3, [1, 2, 3]):
        with pytest.raises(DefinitionError, match="is a list of names, not"):
            filters.freeze(wrong)
    with pytest.raises(DefinitionError, match="an order for each input") as error:
        join.freeze(["b", "c"])
    assert "freeze({'a': ['b', 'c']})" in str(error.value)
    with pytest.raises(DefinitionError, match="an order for 'a' is a list of names, not 'bc'"):
        join.freeze({"a": "bc"})
    with pytest.raises(DefinitionError, match="no input 'd'"):
        join.freeze({"d": ["b", "c"]})
    assert not filters.events().size
    assert filters.freeze(["listed", "parses", "is_attack"]).route() == ("listed", "parses", "is_attack")
    assert join.freeze({"a": ["c", "b"]}).routes["a"] == {"": ("c", "b")}
    assert "pinned      by freeze(), from the next batch on" in join.explain()


@pytest.mark.parametrize("kind", ["filter", "join"])
def test_after_thaw_nothing_says_frozen(tmp_path, kind):
    if kind == "join":
        query = handle(JOIN(), [reported.cell(0, 0, 9, frozen=True)], tmp_path)
    else:
        query = handle(
            FILTER(),
            reported.two_batches(
                frozen=True,
            ),
            tmp_path,
        )
    query.freeze()
    assert query.view().frozen
    assert query.plan().pinned
    assert all(p.frozen for i in query.view().inputs for p in i.paths)
    query.thaw()
    view = query.now()
    assert not view.frozen
    assert not query.plan().pinned
    assert not any(p.frozen for i in view.inputs for p in i.paths)
    assert "frozen" not in query.explain()
    assert "thawed" in query.explain()
    assert "frozen" not in report.html(view)


@pytest.mark.parametrize("name", ["streaming", "classes", "join", "join_classes", "not_run", "join_not_run", "lookup"])
def test_every_view_has_a_report_that_begins_with_the_verdict(name):
    page = report.html(getattr(reported, name)())
    assert page.index("class='verdict'") < page.index("class='cards'")
    assert "tuple" not in page
    assert "nan" not in page.lower().replace("finance", "")


def test_an_operator_has_one_colour_in_all_charts():
    page = report.html(reported.streaming())
    colours = {
        line.split('"')[1] for line in page.split("<i class=")[1:] if line.partition("</i>")[2].startswith("parses")
    }
    assert len(colours) == 1
