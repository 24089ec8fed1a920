"""Calibration: known prices come out of a clock that charges them; on the real clock all are positive, once a process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from thalweg.engine import calibrate, machine
from thalweg.execute.kernels import join as kernels
from thalweg.profile.prices import RECORDED, Prices
from thalweg.state.kernels import index
from thalweg.state.stem import Stem


def test_prices_that_a_clock_charges_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    charged = Prices(hash=2.0, candidate=7.0, bucket=3.0, insert=5.0, delete=1.0, request=20.0)  # nanoseconds here
    now = 0.0
    join, extend_bits, evict = kernels.join, index.extend_bits, Stem.evict

    def charging_join(*arguments: Any) -> Any:
        nonlocal now
        result, tally = join(*arguments), arguments[5][0]
        walked = tally[kernels.BUCKETS] * charged.bucket
        now += tally[kernels.ROWS_IN] * (charged.request + charged.hash) + walked
        now += (tally[kernels.WORK] - tally[kernels.BUCKETS]) * charged.candidate
        return result

    def charging_extend(*arguments: Any) -> Any:
        nonlocal now
        first, last, bits = arguments[3], arguments[4], arguments[7]
        now += (last - first) * (charged.insert + charged.hash * (bits > 0).sum())
        return extend_bits(*arguments)

    def charging_evict(stem: Stem, horizon: int) -> int:
        nonlocal now
        gone = evict(stem, horizon)
        now += gone * charged.delete
        return gone

    monkeypatch.setattr(kernels, "join", charging_join)
    monkeypatch.setattr(index, "extend_bits", charging_extend)
    monkeypatch.setattr(Stem, "evict", charging_evict)
    found = calibrate.measure(lambda: int(now)).record()
    for name in ("hash", "candidate", "bucket", "insert", "delete", "request"):
        assert found[name] == pytest.approx(charged.record()[name] * 1e-9, rel=0.01)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache folder of its own, and no prices known yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("THALWEG_PRICES", raising=False)
    machine.prices.cache_clear()
    yield tmp_path / "thalweg"
    machine.prices.cache_clear()


def test_a_machine_is_measured_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = machine.prices()
    assert found is machine.prices()
    assert all(price > 0 for price in found.record().values())
    # A probe that meets nothing still costs more than a hash; asking a policy more than a row.
    assert found.probe > found.hash
    assert found.ask > found.classify
    monkeypatch.setattr(calibrate, "measure", lambda: pytest.fail("measured again"))
    machine.prices.cache_clear()
    assert machine.prices() == found, "the next process reads what was kept"


@pytest.mark.parametrize("content", ["", "[]", '{"hash": 1}x', '{"unknown": 1.0}'])
def test_a_spoilt_file_is_measured_again(cache: Path, monkeypatch: pytest.MonkeyPatch, content: str) -> None:
    monkeypatch.setattr(calibrate, "measure", lambda: Prices(bucket=5e-9))
    machine.prices()
    (kept,) = cache.glob("prices-*.json")
    kept.write_text(content)
    machine.prices.cache_clear()
    assert machine.prices() == Prices(bucket=5e-9)
    machine.prices.cache_clear()
    assert machine.prices() == Prices(**json.loads(kept.read_text()))


def test_a_folder_that_can_not_be_written_is_no_reason_to_fail(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.write_text("a file where the folder should be")
    monkeypatch.setattr(calibrate, "measure", lambda: Prices(bucket=5e-9))
    assert machine.prices() == Prices(bucket=5e-9)


def test_recorded_prices_can_be_asked_for(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THALWEG_PRICES", "recorded")
    assert machine.prices() is RECORDED
