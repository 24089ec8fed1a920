"""Claims can fail: every verdict is reached, intervals decide, and one seed decides nothing."""

from __future__ import annotations

import json
from math import inf, sqrt

import numpy as np
import pytest

from thalweg.errors import DefinitionError, ThalwegError
from thalweg.lab import catalogue, check, record
from thalweg.lab.estimate import Estimate, estimate
from thalweg.lab.experiment import Claim, Experiment, Finding, Measurements, Panel, Trial, counted, curves, judge
from thalweg.lab.run import run

HIGH, LOW, WIDE = Estimate(1.2, 1.1, 1.3, 5), Estimate(0.8, 0.7, 0.9, 5), Estimate(1.0, 0.5, 1.5, 5)


def test_interval_of_a_sample_by_the_book() -> None:
    values = [4.1, 3.9, 4.4, 4.0, 4.1]
    e = estimate(values)
    half = 2.776 * np.std(values, ddof=1) / sqrt(5)
    assert (e.mean, e.low, e.high, e.count) == pytest.approx((4.1, 4.1 - half, 4.1 + half, 5))


def test_interval_covers_the_true_mean_about_95_times_in_a_hundred() -> None:
    random = np.random.default_rng(5)
    covered = sum(e.low <= 10 <= e.high for e in (estimate(random.normal(10, 3, 6)) for _ in range(2000)))
    assert 0.93 < covered / 2000 < 0.97


def test_one_value_has_no_interval() -> None:
    e = estimate([3.0])
    assert (e.low, e.high) == (-inf, inf)
    assert check.above({"x": e}, 0.0).verdict == "can't say"
    assert check.below({"x": e}, 100.0).verdict == "can't say"
    assert check.within({"x": e}, {"x": 3.0}, 0.5).verdict == "can't say"


@pytest.mark.parametrize(
    ("estimates", "verdict"),
    [({"a": HIGH}, "agrees"), ({"a": HIGH, "b": LOW}, "does not"), ({"a": HIGH, "b": WIDE}, "can't say"),
     ({"b": WIDE, "a": LOW}, "does not"), ({}, "can't say"), ({"a": estimate([])}, "can't say")],
)  # fmt: skip
def test_above(estimates: dict[str, Estimate], verdict: str) -> None:
    assert check.above(estimates, 1.0).verdict == verdict


@pytest.mark.parametrize(
    ("estimates", "verdict"), [({"a": LOW}, "agrees"), ({"a": HIGH}, "does not"), ({"a": WIDE, "b": LOW}, "can't say")]
)
def test_below(estimates: dict[str, Estimate], verdict: str) -> None:
    assert check.below(estimates, 1.0).verdict == verdict


def test_within_and_exactly() -> None:
    assert check.within({"a": HIGH}, {"a": 1.2}, 0.1).verdict == "agrees"
    assert check.within({"a": HIGH}, {"a": 1.2}, 0.05).verdict == "can't say"
    assert check.within({"a": HIGH}, {"a": 2.0}, 0.1).verdict == "does not"
    assert check.exactly({"a": 1.49}, {"a": 1.49}).verdict == "agrees"
    assert check.exactly({"a": 1.4900001}, {"a": 1.49}).verdict == "does not"
    assert check.exactly({}, {}).verdict == "can't say"


def test_a_claim_is_as_good_as_its_worst_part() -> None:
    yes, no, open_ = Finding("agrees", "1"), Finding("does not", "2"), Finding("can't say", "3")
    assert check.both(yes, yes).verdict == "agrees"
    assert check.both(yes, open_).verdict == "can't say"
    assert check.both(open_, no, yes) == Finding("does not", "3; 2; 1")


def test_many_numbers_are_shown_by_their_ends() -> None:
    many = {f"n={i}": Estimate(float(i), i - 0.1, i + 0.1, 3) for i in range(12)}
    assert check.shown(many) == "12 values, from n=0: 0 ±0.100 to n=11: 11.00 ±0.10"
    assert "n=4: 4.000" in check.above(dict(list(many.items())[:6]), 0.0).numbers


def test_slope_is_paired_by_seed() -> None:
    rising = {1: {7: 1.0, 8: 5.0}, 2: {7: 1.5, 8: 5.5}, 3: {7: 2.0, 8: 6.0}}
    e = check.slope(rising)
    assert (e.mean, e.low, e.high) == pytest.approx((0.5, 0.5, 0.5))


def test_ratios_pair_by_seed_not_by_place() -> None:
    rows = (
        {"policy": "a", "seed": 1, "cost": 1.0}, {"policy": "a", "seed": 2, "cost": 10.0},
        {"policy": "b", "seed": 2, "cost": 20.0}, {"policy": "b", "seed": 1, "cost": 2.0},
    )  # fmt: skip
    ratio = Measurements(rows).ratio("cost", {"policy": "b"}, {"policy": "a"})
    assert (ratio.low, ratio.high, ratio.count) == pytest.approx((2.0, 2.0, 2))
    assert Measurements(rows).difference("cost", {"policy": "b"}, {"policy": "a"}).mean == pytest.approx(5.5)


def test_a_selection_with_nothing_in_it_is_an_error() -> None:
    with pytest.raises(ThalwegError, match="nothing measured"):
        Measurements(({"seed": 1, "cost": 1.0},)).values("cost", policy="none")
    twice = Measurements(({"seed": 1, "cost": 1.0}, {"seed": 1, "cost": 2.0}))
    with pytest.raises(ThalwegError, match="not one value for each seed"):
        twice.by_seed("cost")


def _coin(seed: int, bias: float) -> list[dict[str, float]]:
    heads = np.random.default_rng(seed).random(400) < bias
    return [{"seed": seed, "side": "heads", "share": float(heads.mean())}]


def coin(bias: float) -> Experiment:
    """A coin said to be fair."""
    return Experiment(
        "coin", "A coin", "none", "1", ("coin",), "nothing", "everything",
        trials=lambda quick, seed: [
            Trial(f"seed {s}", _coin, {"seed": s, "bias": bias}) for s in range(seed, seed + 12)
        ],
        claims=(
            Claim("heads at least 45 %", lambda m: check.above({"share": m.estimate("share")}, 0.45)),
            Claim("heads at most 55 %", lambda m: check.below({"share": m.estimate("share")}, 0.55)),
        ),
        panels=(Panel("share", "Heads", "side", "share", "", "share", kind="bars", series=""),),
    )  # fmt: skip


def test_an_experiment_can_disagree_with_its_claims() -> None:
    fair, loaded = (judge(e, e.run(seed=3)) for e in (coin(0.5), coin(0.7)))
    assert counted([fair]) == {"agrees": 2, "does not": 0, "can't say": 0}
    assert [f.verdict for _, f in loaded.findings] == ["agrees", "does not"]


def test_several_processes_give_the_same_rows_as_one() -> None:
    steps: list[str] = []
    alone = run([coin(0.5)], seed=3)
    together = run([coin(0.5)], seed=3, jobs=2, step=lambda e, t: steps.append(t.label))
    assert [o.measured for o in alone] == [o.measured for o in together]
    assert sorted(steps) == sorted(f"seed {s}" for s in range(3, 15))


def test_curves_are_means_over_seeds() -> None:
    outcome = judge(coin(0.5), coin(0.5).run(seed=3))
    (curve,) = curves(outcome.experiment.panels[0], outcome.measured)
    assert curve.x == ("heads",)
    assert curve.y[0].mean == pytest.approx(outcome.measured.values("share").mean())
    timeline = Panel("t", "t", "", "line", "", "", kind="timeline", step=2000, only=("a",))
    rows = Measurements(
        ({"policy": "a", "line": [1.0, 2.0]}, {"policy": "a", "line": [3.0, 4.0]}, {"policy": "b", "line": [9.0]})
    )
    (drawn,) = curves(timeline, rows)
    assert (drawn.x, [e.mean for e in drawn.y]) == ((0, 2000), [2.0, 3.0])


def test_summary_is_plain_json_without_infinities() -> None:
    one = judge(coin(0.5), Measurements(tuple(_coin(3, 0.5))))
    text = json.dumps(record.summary(record.Settings("coin", True, 3), [one]), allow_nan=False)
    assert json.loads(text)["experiments"][0]["panels"][0]["curves"][0]["low"] == [None]
    assert "**can't say**" in record.claims_table(json.loads(text))


def test_catalogue_knows_figures_by_number() -> None:
    assert catalogue.find("4.24")[0].name == catalogue.find("fig4.23")[0].name == "4.23-4.24"
    assert len(catalogue.find("chapter4")) == len({e.name for e in catalogue.experiments("chapter4")}) == 11
    figures = [f for e in catalogue.experiments("chapter4") for f in e.figures]
    assert len(figures) == len(set(figures))
    assert {f"4.{k}" for k in range(11, 25)} <= set(figures)
    with pytest.raises(DefinitionError, match="did you mean"):
        catalogue.find("chapter-4")
