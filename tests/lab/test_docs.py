"""The essay's table is the recorded run's table, and the record is of a full run of the experiments there are."""

from __future__ import annotations

import json
from pathlib import Path

from thalweg.lab import catalogue, record

ROOT = Path(__file__).parents[2]
SUMMARY = json.loads((ROOT / "src" / "thalweg" / "lab" / "records" / "chapter4.json").read_text(encoding="utf-8"))


def test_the_essays_claims_are_those_of_the_recorded_run() -> None:
    text = (ROOT / "docs" / "lab" / "chapter4.md").read_text(encoding="utf-8")
    between = text.split("<!-- claims -->\n")[1].split("<!-- end of claims -->")[0]
    assert between == record.claims_table(SUMMARY)
    tally = SUMMARY["claims"]
    open_claims = tally["can't say"]
    assert f"{tally['agrees']} agree, {tally['does not']} do not, {open_claims}" in text


def test_the_record_is_of_a_full_run_of_what_there_is() -> None:
    assert SUMMARY["quick"] is False
    assert [e["name"] for e in SUMMARY["experiments"]] == [e.name for e in catalogue.experiments("chapter4")]
    for recorded, experiment in zip(SUMMARY["experiments"], catalogue.experiments("chapter4"), strict=True):
        assert [c["says"] for c in recorded["claims"]] == [c.says for c in experiment.claims]
