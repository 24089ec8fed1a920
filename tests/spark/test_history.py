"""The board's memory of reports: totals are exact for good, single reports are bounded, and a report survives JSON."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import psutil
import pytest
from prometheus_client import CollectorRegistry, generate_latest

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
from thalweg.plan import Change, Event, Operator, Pipeline, Reason
from thalweg.plan.layout import Layout
from thalweg.spark import history as module
from thalweg.spark.asked import Asked, AskedInput
from thalweg.spark.board import Entry, board
from thalweg.spark.control import Control
from thalweg.spark.history import History
from thalweg.watch.handle import QueryHandle
from thalweg.watch.metrics import BoardCollector


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
    (fresh,) = history.add([told(0, 1, stage="filter", learned={"": {"big": list(range(100))}})])
    assert fresh.learned
    assert not history.reports("filter")[0].learned


def week(count: int, folder: Path) -> tuple[Entry, dict[int, tuple[float, float, float]]]:
    """A board that heard of so many micro-batches; at some ages its megabytes, and the seconds of a scrape and of explain()."""
    asked = Asked("week", "auto", True, (AskedInput("a", None, Pipeline("a", (Operator("p"),))),), {}, "SELECT")
    entry, seen = Entry(asked, Control(str(folder), "week")), {}
    event = Event("auto", "reorder", 1, 2, Reason("faster"), Change("routes", "a", {"": ("b",)}, {"": ("c",)}))
    for n in range(1, count + 1):
        entry.add([told(n, 10 * n, stage="cell", since_start=True, made=n, events=(event,) if n % 8 == 0 else ())])
        entry.heard(n, {"addBatch": 5, "triggerExecution": 9})
        if n in (count // 100, count // 10, count):
            board.entries["week"] = entry
            scrape = seconds(lambda: generate_latest(registry))
            explain = seconds(lambda: str(QueryHandle(entry).explain()))
            seen[n] = (psutil.Process(os.getpid()).memory_info().rss / 1e6, scrape, explain)
    return entry, seen


registry = CollectorRegistry()
registry.register(BoardCollector())


def seconds(call) -> float:
    """The least of five: what the call takes, not what else the machine does."""
    taken = []
    for _ in range(5):
        started = time.perf_counter()
        call()
        taken.append(time.perf_counter() - started)
    return min(taken)


@pytest.mark.long
@pytest.mark.timeout(3000)
def test_a_week_of_batches_takes_no_more_memory_or_time_than_an_hour(tmp_path):
    """A million micro-batches: counters exact, memory flat, a scrape below 50 ms and explain() below 200 ms at any age."""
    others = dict(board.entries)
    board.entries.clear()
    try:
        entry, seen = week(1_000_000, tmp_path)
        scraped = generate_latest(registry).decode()
    finally:
        board.entries.clear()
        board.entries.update(others)
    for n, (mb, scrape, explain) in seen.items():
        print(f"{n} batches: {mb:.0f} MB, scrape {1000 * scrape:.1f} ms, explain {1000 * explain:.1f} ms")
    (cell,) = entry.history.cells()
    assert (cell.input("a").rows_in, cell.made, entry.history.batches) == (10_000_000, 1_000_000, 1_000_000)
    assert entry.history.kinds["reorder"] == 125_000
    assert 'thalweg_decisions_total{kind="reorder",query="week"} 125000.0' in scraped
    ages = list(seen.values())
    assert ages[2][0] - ages[1][0] < 30
    assert max(scrape for _, scrape, _ in ages) < 0.05
    assert max(explain for _, _, explain in ages) < 0.2


def test_a_restarted_driver_goes_on_counting_where_its_cells_are():
    """Counts of cells lie in the checkpoint: a new driver hears totals, so its counters never go back."""
    first, second = History(), History()
    for batch in range(5):
        first.add([told(batch, 10 * (batch + 1), stage="cell", since_start=True, made=batch + 1)])
    before = first.cells()[0].input("a").rows_in
    for batch in range(5, 8):
        second.add([told(batch, 10 * (batch + 1), stage="cell", since_start=True, made=batch + 1)])
        assert second.cells()[0].input("a").rows_in > before
    assert (second.cells()[0].input("a").rows_in, second.cells()[0].made) == (80, 8)
