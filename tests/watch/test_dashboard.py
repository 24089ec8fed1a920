"""The Grafana dashboard asks for metrics and labels that `tw.metrics()` has, and all of them are shown."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

from thalweg.watch.metrics import BoardCollector

ROOT = Path(__file__).parents[2]


def load():
    spec = importlib.util.spec_from_file_location("dashboard", ROOT / "tools" / "dashboard.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def served():
    """Metrics by the names that Prometheus knows, with their labels."""
    found = {}
    for family in BoardCollector().collect():
        name = family.name + ("_total" if family.type == "counter" else "")
        found[name] = set(getattr(family, "_labelnames"))  # noqa: B009  prometheus-client has no public name for them
    return found


def test_the_file_is_what_the_tool_writes():
    assert load().TARGET.read_text() == load().text(), "run: python tools/dashboard.py"


def test_it_asks_for_what_there_is():
    board = json.loads(load().TARGET.read_text())
    metrics = served()
    asked = set()
    for panel in board["panels"]:
        for target in panel["targets"]:
            names = set(re.findall(r"thalweg_\w+", target["expr"]))
            asked |= names
            assert names <= set(metrics), names - set(metrics)
            labels = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            assert labels <= set.union(*(metrics[n] for n in names))
            assert target["expr"].count("(") == target["expr"].count(")")
    assert set(metrics) - asked <= {"thalweg_left_out_rows_total"}


def test_panels_do_not_overlap():
    taken = set()
    for panel in json.loads(load().TARGET.read_text())["panels"]:
        g = panel["gridPos"]
        cells = {(x, y) for x in range(g["x"], g["x"] + g["w"]) for y in range(g["y"], g["y"] + g["h"])}
        assert not cells & taken
        assert g["x"] + g["w"] <= 24
        taken |= cells
