"""Calibration: known prices come out of a clock that charges them; on the real clock all are positive, once a process."""

from __future__ import annotations

from typing import Any

import pytest

from thalweg.engine import calibrate
from thalweg.profile.prices import Prices
from thalweg.state import kernels
from thalweg.state.stem import Stem


def test_prices_that_a_clock_charges_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    charged = Prices(hash=2.0, compare=7.0, bucket=3.0, insert=5.0, delete=1.0, request=20.0)
    now = 0.0
    join, extend_bits, evict = kernels.join, kernels.extend_bits, Stem.evict

    def charging_join(*arguments: Any) -> Any:
        nonlocal now
        result, tally = join(*arguments), arguments[11][0]
        walked = tally[kernels.BUCKETS] * charged.bucket
        now += tally[kernels.ROWS_IN] * (charged.request + charged.hash) + walked
        now += (tally[kernels.WORK] - tally[kernels.BUCKETS]) * charged.compare
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
    monkeypatch.setattr(kernels, "extend_bits", charging_extend)
    monkeypatch.setattr(Stem, "evict", charging_evict)
    found = calibrate.measure(lambda: int(now))
    assert found.record() == pytest.approx(charged.record(), rel=0.01)


def test_this_machine_is_measured_once() -> None:
    found = calibrate.measured()
    assert found is calibrate.measured()
    assert all(price >= calibrate.LEAST for price in found.record().values())
    # A probe that meets nothing still costs more than a hash.
    assert found.request + found.bucket > found.hash
