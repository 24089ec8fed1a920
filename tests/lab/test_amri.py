"""The lab of AMRI: streams come again from their seed and do what they say; every index gives the same results."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from thalweg.lab import catalogue, record
from thalweg.lab.amri.rivals import COMPARED, hashed
from thalweg.lab.amri.streams import MATCHING, PAIRS, sensors, synthetic
from thalweg.lab.amri.trial import compare

ROOT = Path(__file__).parents[2]


def test_streams_come_again_from_their_seed() -> None:
    for make in (synthetic, sensors):
        one, again, other = (make(400, 200, seed) for seed in (1, 1, 2))
        assert one.data == again.data
        assert one.data != other.data


def test_each_phase_has_one_selective_matching_and_phases_differ() -> None:
    streams = synthetic(2_000, 400, seed=3)
    found = []
    for phase in range(6):
        span = slice(200 * phase, 200 * phase + 200)
        distinct = {
            pair: len(np.unique(streams.data[f"s{pair[0]}"][f"a{pair[0]}{pair[1]}"].to_numpy()[span])) for pair in PAIRS
        }
        selective = {MATCHING[k] for k, pair in enumerate(PAIRS) if distinct[pair] > 50}
        assert len(selective) == 1
        found += selective
    assert len(set(found)) == 3


@pytest.mark.parametrize("make", [synthetic, sensors])
def test_every_index_gives_the_same_results(make) -> None:
    rows = compare(make, {"tuples": 600, "window": 200}, [*COMPARED, hashed(1)], seed=4)
    assert [r["index"] for r in rows] == [*(c.name for c in COMPARED), "1 hash index"]
    for row in rows:
        assert row["work"] > 0
        assert row["curve"][0] == 0
        assert row["curve"] == sorted(row["curve"])


def test_the_essays_claims_are_those_of_the_recorded_run() -> None:
    summary = json.loads((ROOT / "benchmarks" / "lab" / "amri.json").read_text(encoding="utf-8"))
    text = (ROOT / "docs" / "lab" / "amri.md").read_text(encoding="utf-8")
    between = text.split("<!-- claims -->\n")[1].split("<!-- end of claims -->")[0]
    assert between == record.claims_table(summary)
    assert f"`{summary['command']}`" in text
    for recorded, experiment in zip(summary["experiments"], catalogue.experiments("amri"), strict=True):
        assert [c["says"] for c in recorded["claims"]] == [c.says for c in experiment.claims]
