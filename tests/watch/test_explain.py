"""Explain, from recorded reports: the text is a fixture, read it to see what a user sees."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.watch import reported

from thalweg.contract.report import ClassReport
from thalweg.watch import explain
from thalweg.watch.sankey import sankey

FIXTURES = Path(__file__).parent / "fixtures"
NAMES = reported.NAMES


def check(name: str, got: str) -> None:
    expected = (FIXTURES / name).read_text()
    assert got + "\n" == expected, f"\n{got}\n-- differs from {name} --\n{expected}"


@pytest.mark.parametrize("name", ["streaming", "not_run", "classes", "join", "join_classes", "join_not_run", "lookup"])
def test_text(name):
    check(f"{name}.txt", explain.text(getattr(reported, name)()))


def test_sums_are_exact():
    v = reported.streaming()
    assert (v.rows_in, v.rows_out, v.batches, v.sampled) == (2000, 150, 2, 200)
    assert [o.calls for o in v.judged] == [1460, 720, 950]
    assert v.spark_calls == 6000
    assert v.written_calls == 3500  # 200 sampled rows cost 350 calls as written, and there are ten times as many rows
    assert v.saved_against_written == 1 - 3130 / 3500


def test_html_escapes_names():
    page = explain.html(reported.of(reported.filters("auto", names=["x<y"], places={"x<y": "Python"}, name="<b>"), []))
    assert "x&lt;y" in page
    assert "'<b>'" not in page


def test_a_join_is_html_too():
    page = explain.html(reported.join_classes())
    assert page.count("<table>") == 4, "inputs, classes, predicates, probes"
    assert "<svg" in page


def test_classes_as_html_with_a_sankey():
    got = explain.html(reported.classes())
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
    alike = [ClassReport(label, 0.5, tuple(NAMES), None, 100, came, left) for label in ("a", "b")]
    drawn = sankey(alike, NAMES)
    assert drawn.count("<rect") == 2 + 3 + 1
    assert f"<title>{NAMES[0]}: 200</title>" in drawn
    assert sankey([replace(c, rows=0) for c in alike], NAMES) == ""


def test_predicates_of_one_function_are_not_mixed_up():
    """A picture leaves out arguments, but counts of `f(a)` and `f(b)` stay apart."""
    one = ClassReport("x", 1.0, ("f(b)", "f(a)"), None, 9, (4, 9), (2, 4))
    assert "<title>x: f, 9 in, 4 out</title>" in sankey([one], ["f(a)", "f(b)"])
    assert "<title>x: f, 4 in, 2 out</title>" in sankey([one], ["f(a)", "f(b)"])


def test_routes_of_classes_are_weighed_by_their_rows():
    (path,) = reported.classes().filters
    assert [(str(r), r.share) for r in path.routes] == [
        ("parses → listed → is_attack", 0.7),
        ("is_attack → parses → listed", 0.3),
    ]


@pytest.mark.parametrize("name", ["streaming", "classes", "join", "join_classes"])
def test_a_view_becomes_json(name):
    record = getattr(reported, name)().record()
    assert json.loads(json.dumps(record)) == json.loads(json.dumps(record, default=None))
    assert record["calls"] == sum(
        o["calls"] for i in record["inputs"] for o in (i["filters"] or {"operators": []})["operators"]
    )
