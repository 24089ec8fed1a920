"""The lab of AMRI: streams come again from their seed and do what they say; every index gives the same results."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from thalweg.engine.engine import Engine
from thalweg.lab import catalogue, record
from thalweg.lab.amri.rivals import AMRI, STATIC, compared, hashed
from thalweg.lab.amri.streams import MATCHING, PAIRS, sensors, synthetic
from thalweg.lab.amri.trial import compare, course

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


def test_no_event_is_shared_by_many_tuples() -> None:
    """Cut off at the first tuple, hundreds of them would share one event, and its results would be all there is."""
    streams = synthetic(2_000, 2_000, seed=5, orders=1)
    for table in streams.data.values():
        rows = np.stack([table[n].to_numpy() for n in table.column_names if n != "ts"], axis=1)
        assert np.unique(rows, axis=0, return_counts=True)[1].max() <= 8


def test_training_is_not_counted_and_what_was_trained_stays() -> None:
    sizes = {"tuples": 1_200, "window": 400}
    adapting, static = (c for c in compared() if c.name in (AMRI, STATIC))
    went, stayed = (course(synthetic, sizes, c, seed=4) for c in (adapting, static))
    assert went.changes > 0
    assert stayed.changes == stayed.counted["moved"] == 0
    streams = synthetic(**sizes, seed=4)
    engine = Engine(streams.query, policy="written")
    found = [
        sum(engine.push(n, t[first:last]).num_rows for n, t in streams.data.items())
        for first, last in ((0, 400), (400, 1_200))
    ]
    assert found[0] > 0
    assert went.results[-1] == stayed.results[-1] == found[1]


@pytest.mark.parametrize("make", [synthetic, sensors])
def test_every_index_gives_the_same_results(make) -> None:
    rows = compare(make, {"tuples": 600, "window": 200}, [*compared(), hashed(1)], seed=4)
    assert [r["index"] for r in rows] == [*(c.name for c in compared()), "1 hash index"]
    for row in rows:
        assert row["work"] > 0
        assert row["curve"][0] == 0
        for curve in (row["curve"], row["time curve"]):
            assert curve == sorted(curve)


def test_the_essays_claims_are_those_of_the_recorded_run() -> None:
    summary = json.loads((ROOT / "src" / "thalweg" / "lab" / "records" / "amri.json").read_text(encoding="utf-8"))
    text = (ROOT / "docs" / "lab" / "amri.md").read_text(encoding="utf-8")
    between = text.split("<!-- claims -->\n")[1].split("<!-- end of claims -->")[0]
    assert between == record.claims_table(summary)
    assert f"`{summary['command']}`" in text
    for recorded, experiment in zip(summary["experiments"], catalogue.experiments("amri"), strict=True):
        assert [c["says"] for c in recorded["claims"]] == [c.says for c in experiment.claims]
