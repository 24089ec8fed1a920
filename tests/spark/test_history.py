"""The board's memory of reports: totals are exact for good, single reports are bounded, and a report survives JSON."""

from __future__ import annotations

import json

import pytest

from thalweg.contract.report import (
    ClassReport,
    HeavyReport,
    IndexReport,
    InputReport,
    OperatorReport,
    RoutingReport,
    TaskReport,
    Timing,
)
from thalweg.plan import Change, Event, Reason
from thalweg.plan.layout import Layout
from thalweg.spark import history as module
from thalweg.spark.history import History


def everything() -> TaskReport:
    routing = RoutingReport(
        ("b", "c"), Reason.of("{n} rows", n=3), Reason("a rival"), 4, True,
        (ClassReport("k = 1", 0.5, ("c", "b"), 1e-6, 7, (7, 3), (3, 1)),), "k = 1: c → b",
    )  # fmt: skip
    entry = InputReport(
        "a", 10, 5, 1, 2.5, 0.5, 3, 8, 6, 800, 64, 2, 1234,
        (OperatorReport("b", 10, 4, 1, 0.5, 9.0, 3, 2, 1, 2), OperatorReport("c")), routing,
        IndexReport("hash", (("⟨k⟩", 1.0),), (("equal shares", 2.0),), "why"), 3, 2, 1,
    )  # fmt: skip
    moved = Change("routes", "a", {"": ("b", "c")}, {"": ("c", "b")}, 2e-6, 1e-6)
    indexed = Change("layouts", "b", None, Layout.parse("bits"))
    events = tuple(Event("auto", "reorder", 1, 2, Reason("faster"), c) for c in (moved, indexed, None))
    return TaskReport(
        "cell", 3, 1, (entry,), True, 5, 50, events, Timing(1.0, 2.0, {"join": 0.5}, {"join": 0.4}), "warm", 100, 1000,
        ("s",), (3, 4), (HeavyReport("a.k", 2, 40, (("7", 30),)),), {"policy": "auto"}, 9,
    )  # fmt: skip


def test_a_report_survives_json():
    report = everything()
    assert TaskReport.of(json.loads(json.dumps(report.record()))) == report


def told(batch: int, rows: int, *, stage="pack", task: int = 0, **more) -> str:
    entry = InputReport("a", rows, rows // 2, stored=rows, operators=(OperatorReport("p", rows, rows // 2),))
    return json.dumps(TaskReport(stage, batch, task, (entry,), **more).record())


def test_totals_stay_exact_when_reports_are_dropped(monkeypatch):
    monkeypatch.setattr(module, "REPORT_BYTES", 20_000)
    history = History()
    for batch in range(1000):
        history.add([told(batch, 10, sent=(4, 1)), told(batch, 20, task=1, sent=(0, 10))])
    assert 2 < len(history.reports("pack")) < 100
    assert sum(len(json.dumps(r.record())) for r in history.reports("pack")) < 25_000
    total = history.total("pack", "a")
    assert (total.rows_in, total.rows_out, total.operators[0].calls) == (30_000, 15_000, 30_000)
    assert (history.batches, history.heard, history.sent) == (1000, 2000, (4000, 11_000))
    assert [r.batch for r in history.newest("pack")] == [999, 999]
    assert [r.heard for r in history.reports("pack", since=1999)] == [2000]


@pytest.mark.parametrize("since_start", [True, False])
def test_counts_of_a_cell_are_totals_however_it_counts(since_start):
    history = History()
    for batch in range(3):
        rows = 10 * (batch + 1) if since_start else 10
        history.add([told(batch, rows, stage="cell", task=7, since_start=since_start, results=2, made=rows)])
    (cell,) = history.cells()
    assert (cell.inputs[0].rows_in, cell.made, cell.results) == (30, 30, 2)
    assert cell.inputs[0].stored == (30 if since_start else 10), "what is stored now is never added up"


def test_decisions_are_counted_though_only_the_last_are_kept(monkeypatch):
    monkeypatch.setattr(module, "EVENTS", 5)
    history = History()
    change = Change("routes", "a", {}, {"": ("p",)})
    for batch in range(20):
        events = (Event("auto", "reorder", 1, 2, Reason("x"), change), Event("auto", "look", 1, 2, Reason("y")))
        history.add([told(batch, 1, events=events)])
    assert (history.kinds, len(history.events)) == ({"reorder": 20, "look": 20}, 5)


def test_what_cells_learned_is_not_kept_in_memory():
    history = History()
    (fresh,) = history.add([told(0, 1, stage="filter", learned={"big": list(range(100))})])
    assert fresh.learned is not None
    assert history.reports("filter")[0].learned is None


def week(count: int) -> tuple[History, dict[int, tuple[float, float]]]:
    """A history that heard so many reports of eight cells, and at each tenth power its memory and a view's seconds."""
    import os
    import time

    import psutil

    from thalweg.plan import Operator, Pipeline
    from thalweg.spark.asked import Asked, AskedInput
    from thalweg.spark.control import Orders
    from thalweg.watch.gather import gather

    asked = Asked("week", "auto", True, (AskedInput("a", None, Pipeline("a", (Operator("p"),))),), {}, "SELECT")
    history, seen = History(), {}
    event = Event("auto", "reorder", 1, 2, Reason("faster"), Change("routes", "a", {"": ("b",)}, {"": ("c",)}))
    for n in range(1, count // 8 + 1):
        batch = [told(n, 10 * n, stage="cell", task=t, since_start=True, made=n, events=(event,)) for t in range(8)]
        history.add(batch)
        if n * 8 in (10_000, 100_000, 1_000_000):
            started = time.perf_counter()
            gather(asked, history, Orders(), {}, history.heard)
            took = time.perf_counter() - started
            seen[n * 8] = (psutil.Process(os.getpid()).memory_info().rss / 1e6, took)
    return history, seen


@pytest.mark.long
@pytest.mark.timeout(3000)
def test_a_week_of_reports_takes_no_more_memory_or_time_than_an_hour():
    """A million reports: counters exact and never back, memory and the time of a scrape flat."""
    history, seen = week(1_000_000)
    print({n: f"{mb:.0f} MB, {1000 * s:.1f} ms" for n, (mb, s) in seen.items()})
    assert sum(c.input("a").rows_in for c in history.cells()) == 8 * 10 * 125_000
    assert sum(c.made for c in history.cells()) == 8 * 125_000
    assert history.kinds["reorder"] == 1_000_000
    assert seen[1_000_000][0] - seen[100_000][0] < 30
    assert seen[1_000_000][1] < 3 * max(seen[100_000][1], 0.005)
