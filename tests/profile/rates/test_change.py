"""The change detector: few false alarms on stationary streams, quick on a step, patient on a small one."""

from __future__ import annotations

import json

import numpy as np
import pytest

from thalweg.contract.visits import Journey, Visit, Visits
from thalweg.plan import Purpose, Route, Ruster
from thalweg.profile.rates.change import ChangeDetector


def told(rows_in: list[int], drops: list[int], purpose: Purpose = "work") -> Visits:
    seen = tuple(Visit(i, n, n - d, 0.0) for i, (n, d) in enumerate(zip(rows_in, drops, strict=True)))
    ruster = Ruster(None, Route(tuple(range(len(rows_in)))), purpose)
    return Visits(0, rows_in[0], (Journey(ruster, rows_in[0], seen),))


def flow(random: np.random.Generator, rates: list[float], rows: int = 1000) -> Visits:
    """A batch through operators with these conditional drop rates."""
    left, rows_in, drops = rows, [], []
    for rate in rates:
        rows_in.append(left)
        drops.append(int(random.binomial(left, rate)))
        left -= drops[-1]
    return told(rows_in, drops)


RATES = [0.1, 0.3, 0.5, 0.05, 0.7, 0.2]


def test_false_alarms_on_stationary_streams_are_rare() -> None:
    random = np.random.default_rng(11)
    detector = ChangeDetector(len(RATES))
    alarms = 0
    batches = 12_000
    for _ in range(batches):
        if detector.observe(flow(random, RATES)) is not None:
            alarms += 1
            detector.reset()
    # The file's head promises about one in 10,000 batches; five in 12,000 would be beyond a chance of one in a hundred.
    assert alarms <= 4


def test_false_alarms_with_shares_near_0_and_1_are_rare_too() -> None:
    random = np.random.default_rng(12)
    detector = ChangeDetector(4)
    alarms = 0
    for _ in range(4000):
        if detector.observe(flow(random, [0.001, 0.0, 0.995, 0.5])) is not None:
            alarms += 1
            detector.reset()
    assert alarms <= 4


@pytest.mark.parametrize(("rate", "batches"), [(0.5, 1), (0.4, 2), (0.36, 8)], ids=["large step", "step", "small step"])
def test_delay_on_a_step(rate: float, batches: int) -> None:
    delays = []
    for seed in range(20):
        random = np.random.default_rng(seed)
        detector = ChangeDetector(3)
        for _ in range(60):
            if detector.observe(flow(random, [0.1, 0.3, 0.5])) is not None:
                detector.reset()
        for k in range(1, 60):
            changed = detector.observe(flow(random, [0.1, rate, 0.5]))
            if changed is not None:
                assert changed == 1, "the operator that changed is named"
                delays.append(k)
                break
    assert len(delays) == 20, "the step is always found"
    assert np.median(delays) <= batches, f"delays of {sorted(delays)} batches"


def test_a_small_step_needs_the_longer_span() -> None:
    """A step from 30 to 36 in a hundred shows in no single batch of 400 rows, and is plain over eight of them."""
    found = {}
    for spans in ((1,), (1, 8)):
        delays = []
        for seed in range(20):
            random = np.random.default_rng(seed)
            detector = ChangeDetector(1, spans=spans)
            for _ in range(100):
                if detector.observe(flow(random, [0.3], 400)) is not None:
                    detector.reset()
            delays.append(next((k for k in range(60) if detector.observe(flow(random, [0.36], 400)) is not None), 60))
        found[spans] = np.median(delays)
    assert found[1, 8] < found[1,]


def test_only_working_rusters_count() -> None:
    detector = ChangeDetector(1)
    for _ in range(20):
        assert detector.observe(told([1000], [300])) is None
    for purpose in ("profile", "explore"):
        assert detector.observe(told([1000], [1000], purpose)) is None
    assert detector.observe(told([1000], [1000])) == 0


def test_stems_are_judged_by_rows_without_a_match() -> None:
    detector = ChangeDetector(1)

    def matched(survivors: int) -> Visits:
        visit = Visit(0, 1000, 5000, 0.0, survivors=survivors)
        return Visits(0, 1000, (Journey(Ruster(None, Route((0,))), 1000, (visit,)),))

    for _ in range(20):
        assert detector.observe(matched(700)) is None
    assert detector.observe(matched(300)) == 0


def test_too_little_to_say_is_no_change() -> None:
    detector = ChangeDetector(1)
    for _ in range(15):
        assert detector.observe(told([10], [0])) is None
    assert detector.observe(told([40], [40])) is None, "150 rows to compare with are too few"
    detector = ChangeDetector(1, spans=(1,))
    for _ in range(50):
        assert detector.observe(told([10], [0])) is None
    assert detector.observe(told([15], [15])) is None, "15 rows are too few to be compared"
    assert detector.observe(told([25], [25])) == 0


def test_no_operators() -> None:
    detector = ChangeDetector(0)
    for _ in range(10):
        assert detector.observe(Visits(0, 100, ())) is None


def test_a_snapshot_is_json_and_goes_on_the_same() -> None:
    random = np.random.default_rng(4)
    detector = ChangeDetector(3)
    for _ in range(30):
        detector.observe(flow(random, [0.1, 0.3, 0.5]))
    twin = ChangeDetector(3)
    twin.restore(json.loads(json.dumps(detector.snapshot())))
    for k in range(40):
        batch = flow(random, [0.1, 0.3 + k / 400, 0.5])
        assert detector.observe(batch) == twin.observe(batch)


def test_slow_drift_is_seen_against_what_was() -> None:
    """Neighbouring batches never differ enough; compared with all that came since the last change, drift shows."""
    random = np.random.default_rng(9)
    detector = ChangeDetector(1)
    assert any(detector.observe(flow(random, [0.3 + k / 4000])) is not None for k in range(400))
