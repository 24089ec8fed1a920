"""Queries whose tasks have reported: recorded reports of a filter and of a join, and their views."""

from __future__ import annotations

import json
from types import SimpleNamespace

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
from thalweg.language.query import Window
from thalweg.plan import Change, Event, Operator, Pipeline, Reason
from thalweg.plan.shares import Shares
from thalweg.spark.asked import Asked, AskedInput, Cut
from thalweg.spark.control import Orders
from thalweg.spark.history import History
from thalweg.watch.gather import gather
from thalweg.watch.view import QueryView

NAMES = ["is_attack", "parses", "listed"]
PLACES = {
    "dst LIKE '10.%'": "Spark, before the Python hop (SQL)",
    "is_attack": "Python, adaptive (row function)",
    "parses": "Python, adaptive (arrow function)",
    "listed": "Python, adaptive (row function)",
}


def history(reports) -> History:
    made = History()
    for r in reports:
        made.add([json.dumps(r.record())])
    return made


def of(asked, reports) -> QueryView:
    return gather(asked, history(reports), Orders(), {}, since=0)


# A filter


def filters(policy="auto", streaming=True, names=NAMES, places=PLACES, name="hot") -> Asked:
    pipeline = Pipeline("", tuple(Operator(n) for n in names))
    return Asked(name, policy, streaming, (AskedInput("", None, pipeline),), places)


def filtered(batch, partition, rows, calls, passed, route, sampled=0, written=(0, 0, 0), why="because", **more):
    operators = tuple(
        OperatorReport(n, calls[k], passed[k], seconds=calls[k] * 2e-6, written=written[k]) for k, n in enumerate(NAMES)
    )
    order = tuple(NAMES[k] for k in route)
    routing = RoutingReport(order, Reason(why), Reason("nearest rival: 'parses' at 60%"), version=3, **more)
    told = InputReport("", rows, passed[route[-1]], sampled=sampled, operators=operators, routing=routing)
    return TaskReport("filter", batch, partition, (told,))


def two_batches(**more):
    return [
        filtered(0, 0, 1000, [1000, 500, 250], [500, 250, 100], [0, 1, 2], sampled=100, written=(100, 50, 25), **more),
        filtered(1, 0, 600, [60, 20, 600], [20, 10, 60], [2, 0, 1], sampled=60, written=(60, 30, 15), **more),
        filtered(
            1, 1, 400, [400, 200, 100], [200, 100, 40], [0, 1, 2], sampled=40, written=(40, 20, 10), why="as written", **more
        ),
    ]  # fmt: skip


def streaming() -> QueryView:
    return of(filters(), two_batches())


def not_run() -> QueryView:
    return of(filters(streaming=False), [])


def classes() -> QueryView:
    udp = ClassReport("proto = udp", 0.3, tuple(NAMES), 3.2e-6, 300, (300, 30, 10), (30, 10, 5))
    other = ClassReport("proto ≠ udp", 0.7, ("parses", "listed", "is_attack"), None, 700, (20, 700, 70), (10, 70, 20))
    tree = "proto = udp: is_attack → parses → listed\nproto ≠ udp: parses → listed → is_attack"
    told = filtered(
        1, 0, 1000, [300, 700, 150], [30, 70, 100], [0, 1, 2], sampled=100, written=(100, 50, 25),
        classes=(udp, other), tree=tree,
    )  # fmt: skip
    return of(filters("mesh"), [told])


# A join of three streams in two cells


def joined(cut=True) -> Asked:
    def stem(name):
        return Operator(name, "stem")

    seconds = Window("range", 10_000_000)
    inputs = (
        AskedInput("a", seconds, Pipeline("a", (stem("b"), stem("c")))),
        AskedInput("b", seconds, Pipeline("b", (stem("a"), stem("c"))), 1),
        AskedInput("c", Window("rows", rows=100), Pipeline("c", (stem("b"), stem("a"))), 2),
    )
    places = {"whole(a.id)": "Python, adaptive, before the window", "a.k = b.k": "index of the stems, as long"}
    key = SimpleNamespace(columns=("a.k", "b.k"))
    query = SimpleNamespace(block=SimpleNamespace(keys=[key]), inputs=inputs)
    found = Cut(query, Shares((2,)), "least copies at equal rates", 2) if cut else None
    return Asked("trades", "auto", False, inputs, places, "SELECT ...", found)


def packed(batch, alias, rows):
    met = OperatorReport("whole(a.id)", rows, rows // 2, seconds=rows * 1e-6, tried=10, held=5, written=10)
    routing = RoutingReport(("whole(a.id)",), Reason("only one order is possible"))
    operators = (met,) if alias == "a" else ()
    sent = rows // 2 if alias == "a" else 2 * rows if alias == "c" else rows
    told = InputReport(alias, rows, sent, sampled=10, operators=operators, routing=routing if alias == "a" else None)
    heavy = (HeavyReport("a.k", 2, 100, (("7", 60),)),) if alias == "a" else ()
    return TaskReport("pack", batch, 0, (told,), sent=(sent - sent // 3, sent // 3), heavy=heavy, timing=Timing(0, 1))


def cell(batch, key, rows, *, classes=(), events=(), loaded="new", frozen=False, tree=""):
    def one(alias, route, classes=(), tree="", index=None, window=0):
        operators = tuple(
            OperatorReport(n, rows, 2 * rows, seconds=rows * 1e-6, work=3.0 * rows, buckets=rows) for n in sorted(route)
        )
        routing = RoutingReport(
            route, Reason("frozen") if frozen else Reason.of("{n} drops most", n=route[0]), None, 1, frozen, classes, tree
        )  # fmt: skip
        return InputReport(
            alias, rows, late=2, work=6.0 * rows, stored=80, needed=70, row_bytes=640, index_bytes=4000,
            operators=operators, routing=routing, index=index,
        )  # fmt: skip

    index = IndexReport("hash for each pattern", (("⟨k⟩", 0.75), ("⟨k, j⟩", 0.25)), (("no index", 12.5),), "4 tunings")
    inputs = (
        one("a", ("b", "c"), classes, tree),
        one("b", ("c", "a") if key else ("a", "c"), index=index),
        one("c", ("b", "a")),
    )
    return TaskReport(
        "cell", batch, key, inputs, True, rows, rows, tuple(events), Timing(1, 2), loaded, state=5000, silent=("c",)
    )


def _reports(**more):
    return [packed(0, "a", 300), packed(0, "b", 200), packed(0, "c", 100), cell(0, 0, 250, **more), cell(0, 1, 150)]


def join() -> QueryView:
    return of(joined(), _reports())


def join_classes() -> QueryView:
    hot = ClassReport("kind = 1", 0.4, ("c", "b"), 3e-7, 100, (5, 100), (2, 5))
    cold = ClassReport("kind ≠ 1", 0.6, ("b", "c"), None, 150, (150, 20), (20, 3))
    return of(joined(), _reports(classes=(hot, cold), tree="kind = 1: c → b\nkind ≠ 1: b → c"))


def join_not_run() -> QueryView:
    return of(joined(), [])


def lookup() -> QueryView:
    return of(joined(cut=False), [cell(None, 0, 250)])


def moved(kind="reorder") -> Event:
    return Event("auto", kind, 1, 50, Reason("faster"), Change("routes", "a", {"": ("b", "c")}, {"": ("c", "b")}))
