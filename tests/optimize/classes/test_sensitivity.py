"""The options that no paper gives and nothing measures: halved and doubled, learning is as good."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from thalweg.lab.simulate import best_order, run

FACTORS = (0.5, 1.0, 2.0)


@cache
def stream(seed: int) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Two classes told by two attributes, and by a word that nearly tells them; each has its own best order."""
    random = np.random.default_rng(seed)
    a, b = random.random((2, 40_000))
    label = ((a < 0.6) & (b < 0.6)).astype(int)
    rates = np.array([[0.05, 0.9, 0.8, 0.7], [0.9, 0.05, 0.8, 0.7]])
    bits = random.random((len(a), 4)) < rates[label]
    word = np.where(random.random(len(a)) < 0.95, label, 1 - label)
    return bits, label, {"a": a, "b": b, "word": np.array(["low", "high"])[word], "noise": random.random(len(a))}


def knowing(bits: np.ndarray, label: np.ndarray) -> float:
    return sum(best_order(bits[label == c], [1.0] * bits.shape[1])[1] for c in np.unique(label))


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize(
    ("policy", "option", "usual"),
    [
        ("cbr", "evidence", 2.5),
        ("cbr", "worthwhile", 0.05),
        ("mesh", "evidence", 2.0),
        ("mesh", "worthwhile", 0.01),
        ("mesh", "p", 0.01),
        ("mesh", "burst", 0.1),
        ("mesh", "budget", 400),
    ],
)
def test_classes_are_learned_and_cost_little(policy, option, usual, factor):
    for seed in (31, 32):
        bits, label, columns = stream(seed)
        done = run(policy, bits, [1.0] * 4, seed=seed, columns=columns, **{option: type(usual)(usual * factor)})
        late = float(done.useful[20:].sum() + done.extra[20:].sum())
        single = best_order(bits[20_000:], [1.0] * 4)[1]
        assert late < 1.2 * knowing(bits[20_000:], label[20_000:]) < single


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize(("option", "usual"), [("stake", 0.02), ("ruster", 100)])
def test_the_lottery_finds_what_drops_most_and_forgets(option, usual, factor):
    random = np.random.default_rng(33)
    first, then = [0.9, 0.5, 0.1], [0.1, 0.5, 0.9]
    bits = random.random((60_000, 3)) < np.repeat([first, then], 30_000, axis=0)
    done = run("lottery", bits, [1.0] * 3, seed=33, **{option: type(usual)(usual * factor)})
    for part in (slice(10, 30), slice(45, 60)):
        rows = 1000 * (part.stop - part.start)
        best = best_order(bits[1000 * part.start : 1000 * part.stop], [1.0] * 3)[1]
        assert done.useful[part].sum() < 1.25 * best, f"{done.useful[part].sum() / rows:.2f} evaluations a row"
