"""Explain, from recorded reports: the text is a fixture, read it to see what a user sees."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

from thalweg.contract.report import ClassReport, InputReport, OperatorReport, RoutingReport, TaskReport
from thalweg.plan import Reason
from thalweg.spark.history import History
from thalweg.watch import explain
from thalweg.watch.sankey import sankey
from thalweg.watch.summary import ClassSummary, summarise

FIXTURES = Path(__file__).parent / "fixtures"
NAMES = ["is_attack", "parses", "listed"]
PLACES = {
    "dst LIKE '10.%'": "Spark, before the Python hop (SQL)",
    "is_attack": "Python, adaptive (row function)",
    "parses": "Python, adaptive (arrow function)",
    "listed": "Python, adaptive (row function)",
}


def report(batch, partition, rows, calls, passed, route, sampled=0, written=(0, 0, 0), why="because", **more):
    operators = tuple(
        OperatorReport(n, calls[k], passed[k], seconds=calls[k] * 2e-6, written=written[k]) for k, n in enumerate(NAMES)
    )
    order = tuple(NAMES[k] for k in route)
    routing = RoutingReport(order, Reason(why), Reason("nearest rival: 'parses' at 60%"), version=3, **more)
    told = InputReport("", rows, passed[route[-1]], sampled=sampled, operators=operators, routing=routing)
    return TaskReport("filter", batch, partition, (told,))


def reports():
    return [
        report(0, 0, 1000, [1000, 500, 250], [500, 250, 100], [0, 1, 2], sampled=100, written=(100, 50, 25)),
        report(1, 0, 600, [60, 20, 600], [20, 10, 60], [2, 0, 1], sampled=60, written=(60, 30, 15)),
        report(
            1, 1, 400, [400, 200, 100], [200, 100, 40], [0, 1, 2], sampled=40, written=(40, 20, 10), why="as written"
        ),
    ]


def summed(policy, streaming, told, name="hot", names=NAMES, places=PLACES):
    history = History()
    history.add(json.dumps(r.record()) for r in told)
    newest = [r.inputs[0] for r in history.newest("filter")]
    return summarise(name, policy, streaming, names, places, history.total("filter", ""), newest, history.batches)


def check(name: str, got: str) -> None:
    expected = (FIXTURES / name).read_text()
    assert got + "\n" == expected, f"\n{got}\n-- differs from {name} --\n{expected}"


def test_streaming():
    check("streaming.txt", explain.text(summed("auto", True, reports())))


def test_not_run_yet():
    check("not_run.txt", explain.text(summed("auto", False, [])))


def test_sums_are_exact():
    s = summed("auto", True, reports())
    assert (s.rows_in, s.rows_out, s.batches, s.sampled) == (2000, 150, 2, 200)
    assert [p.calls for p in s.predicates] == [1460, 720, 950]
    assert s.spark_calls == 6000
    assert s.written_calls == 3500  # 200 sampled rows cost 350 calls as written, and there are ten times as many rows
    assert s.saved_against_written == 1 - 3130 / 3500


def test_html_escapes_names():
    nasty = summed("auto", True, [], name="<b>", names=["x<y"], places={"x<y": "Python"})
    page = explain.html(nasty)
    assert "x&lt;y" in page
    assert "<b> " not in page


def classed():
    udp = ClassReport("proto = udp", 0.3, tuple(NAMES), 3.2e-6, 300, (300, 30, 10), (30, 10, 5))
    other = ClassReport("proto ≠ udp", 0.7, ("parses", "listed", "is_attack"), None, 700, (20, 700, 70), (10, 70, 20))
    tree = "proto = udp: is_attack → parses → listed\nproto ≠ udp: parses → listed → is_attack"
    told = report(
        1, 0, 1000, [300, 700, 150], [30, 70, 100], [0, 1, 2], sampled=100, written=(100, 50, 25),
        classes=(udp, other), tree=tree,
    )  # fmt: skip
    return summed("mesh", True, [told])


def test_classes():
    check("classes.txt", explain.text(classed()))


def test_classes_as_html_with_a_sankey():
    got = explain.html(classed())
    assert got.count('fill-opacity="0.5"') == 2 * 4, "a band for each class from its start to what comes out"
    assert got.count('fill-opacity="0.15"') == 2 * 3, "and what each operator drops of it"
    assert "<title>proto ≠ udp: parses, 700 in, 70 out</title>" in got
    assert "15 out" in got
    drawn = ElementTree.fromstring(got[got.index("<svg") : got.index("</svg>") + 6])
    wide, tall = map(float, drawn.attrib["viewBox"].split()[2:])
    words = [e for e in drawn.iter() if e.tag.endswith("text")]
    assert len(words) == 2 + 2 + 2 + 2 + 1, "classes, operators at each place, what comes out"
    assert all(0 <= float(w.attrib["x"]) < wide and 8 <= float(w.attrib["y"]) <= tall for w in words)
    places = sorted((float(w.attrib["x"]), float(w.attrib["y"])) for w in words)
    assert all(b[1] - a[1] >= 12 for a, b in pairwise(places) if a[0] == b[0]), "no word is written over another"


def test_classes_meet_at_the_operators_they_share():
    came, left = (100, 10, 1), (10, 1, 1)
    alike = [ClassSummary(label, 0.5, (0, 1, 2), None, 100, came, left) for label in ("a", "b")]
    drawn = sankey(alike, NAMES)
    assert drawn.count("<rect") == 2 + 3 + 1
    assert f"<title>{NAMES[0]}: 200</title>" in drawn
    assert sankey([replace(c, rows=0) for c in alike], NAMES) == ""


def test_routes_of_classes_are_weighed_by_their_rows():
    assert classed().routes == (("parses → listed → is_attack", 0.7), ("is_attack → parses → listed", 0.3))
