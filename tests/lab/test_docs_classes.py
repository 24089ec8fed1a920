"""The essays on content-based routing and query mesh show the tables of their recorded runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from thalweg.lab import catalogue, record

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("group", ["cbr", "mesh"])
def test_the_essays_claims_are_those_of_the_recorded_run(group):
    summary = json.loads((ROOT / "src" / "thalweg" / "lab" / "records" / f"{group}.json").read_text(encoding="utf-8"))
    text = (ROOT / "docs" / "lab" / f"{group}.md").read_text(encoding="utf-8")
    between = text.split("<!-- claims -->\n")[1].split("<!-- end of claims -->")[0]
    assert between == record.claims_table(summary)
    assert summary["quick"] is False
    experiments = catalogue.experiments(group)
    assert [e["name"] for e in summary["experiments"]] == [e.name for e in experiments]
    for recorded, experiment in zip(summary["experiments"], experiments, strict=True):
        assert [c["says"] for c in recorded["claims"]] == [c.says for c in experiment.claims]
