"""Worst cases of Independent and of LocalSwaps against A-Greedy, with exact figures (thesis examples 4.5.1 and 4.6.1).

Values are uniform over 1 to 100. Each case runs twice: with exact statistics (values in turn, every tuple profiled,
α = 1), where the figures match the paper's to the last digit, and sampled as in Table 4.1, where chance breaks ties. The
printed costs of the second example are not per tuple; we use the corrected ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from thalweg.lab import check
from thalweg.lab.chapter4.contenders import (
    A_GREEDY,
    AUTO,
    CAST,
    FOLLOWING,
    INDEPENDENT,
    LOCAL_SWAPS,
    OPTIMAL,
    Contender,
    lottery,
    named,
    ours,
    thesis,
)
from thalweg.lab.chapter4.convergence import PAPER
from thalweg.lab.experiment import Claim, Experiment, Finding, Measurements, Panel, Trial, Value
from thalweg.lab.simulate import PassBits, best_order, order_work

SEARCHED = 10
"""Up to this many filters, all sets of filters are searched for the best order."""
VALUES: NDArray[np.int64] = np.arange(1, 101)


def against_independent(n: int) -> PassBits:
    """F_1..F_{n-1} pass 1 to 49, F_n passes 50 to 100; rows are the values 1 to 100."""
    return np.column_stack([VALUES <= 49] * (n - 1) + [VALUES >= 50])


def against_local_swaps(n: int) -> tuple[PassBits, PassBits]:
    """F_i drops the i-th of n blocks; then F_n changes and passes only block n-1. Before and after the change."""
    block = (VALUES - 1) * n // 100
    before = np.column_stack([block != i for i in range(n)])
    after = before.copy()
    after[:, n - 1] = block == n - 2
    return before, after


def _exact(contender: Contender) -> Contender:
    """The same algorithm without chance: every tuple is profiled, and ties stay ties."""
    return Contender(contender.name, contender.policy, contender.options | {"p": 1.0, "alpha": 1.0})


def independent_case(n: int, tuples: int, seed: int, contenders: Sequence[Contender]) -> list[dict[str, Value]]:
    """Costs per tuple: of the order reached with exact statistics, and over a sampled run."""
    table = against_independent(n)
    x: dict[str, Value] = {"case": "independent", "n": n, "seed": seed}
    rows = _exact_rows(x, [table], named(thesis(), A_GREEDY, INDEPENDENT), seed)
    drawn = table[np.random.default_rng([seed, n]).integers(0, 100, tuples)]
    return rows + _sampled_rows(x, drawn, 0, contenders, seed)


def local_swaps_case(n: int, tuples: int, seed: int, contenders: Sequence[Contender]) -> list[dict[str, Value]]:
    before, after = against_local_swaps(n)
    x: dict[str, Value] = {"case": "localswaps", "n": n, "seed": seed}
    rows = _exact_rows(x, [before, after], named(thesis(), A_GREEDY, LOCAL_SWAPS), seed)
    values = np.random.default_rng([seed, n]).integers(0, 100, tuples)
    half = tuples // 2
    drawn = np.concatenate([before[values[:half]], after[values[half:]]])
    return rows + _sampled_rows(x, drawn, half, contenders, seed)


def _exact_rows(
    x: dict[str, Value], tables: list[PassBits], contenders: Sequence[Contender], seed: int
) -> list[dict[str, Value]]:
    """Values 1 to 100 in turn, 5,000 tuples of each table; then the order reached, priced on the last table."""
    n = tables[0].shape[1]
    bits = np.concatenate([np.tile(t, (50, 1)) for t in tables])
    rows: list[dict[str, Value]] = []
    if n <= SEARCHED:
        rows.append(x | {"how": "exact", "policy": OPTIMAL, "cost": best_order(tables[-1], [1.0] * n)[1] / 100})
    for contender in contenders:
        went = _exact(contender).run(bits, [1.0] * n, seed, batch=100)
        cost = order_work(tables[-1], went.final_order, [1.0] * n) / 100
        rows.append(x | {"how": "exact", "policy": contender.name, "cost": cost, "order": list(went.final_order)})
    return rows


def _sampled_rows(
    x: dict[str, Value], bits: PassBits, start: int, contenders: Sequence[Contender], seed: int
) -> list[dict[str, Value]]:
    """Useful work per tuple over the part of the stream from `start` on."""
    rows = []
    for contender in contenders:
        went = contender.run(bits, [1.0] * bits.shape[1], seed)
        first = start // went.batch
        cost = float(went.useful[first:].sum()) / (len(bits) - start)
        rows.append(x | {"how": "sampled", "policy": contender.name, "cost": cost})
    return rows


def _trials(quick: bool, seed: int) -> list[Trial]:
    seeds, tuples = (2, 40_000) if quick else (5, 400_000)
    sizes = (4, 10) if quick else (4, 5, 10, 20)
    contenders = thesis() + ours() + lottery()
    return [
        Trial(f"{name}, n = {n}, seed {s}", case, {"n": n, "tuples": tuples, "seed": s, "contenders": contenders})
        for name, case in (("Independent's worst case", independent_case), ("LocalSwaps' worst case", local_swaps_case))
        for n in sizes
        for s in range(seed, seed + seeds)
    ]


def _figures(measured: Measurements, case: str, policy: str, expected: Callable[[int], float]) -> Finding:
    """Exact costs against a formula of n."""
    found, wanted = {}, {}
    for n in measured.distinct("n", case=case):
        for cost in set(measured.values("cost", case=case, how="exact", policy=policy, n=n).tolist()):
            found[f"n={n}"], wanted[f"n={n}"] = cost, expected(n)
    return check.exactly(found, wanted)


def _sampled(measured: Measurements, case: str, policy: str) -> Finding:
    """Does the trap hold once statistics are sampled? The ratio to A-Greedy must be near the exact one."""
    ratios, wanted = {}, {}
    for n in measured.distinct("n", case=case):
        ratios[f"n={n}"] = measured.ratio(
            "cost", {"policy": policy}, {"policy": A_GREEDY}, case=case, how="sampled", n=n
        )
        exact = measured.ratio("cost", {"policy": policy}, {"policy": A_GREEDY}, case=case, how="exact", n=n)
        wanted[f"n={n}"] = round(exact.mean, 3)
    return check.within(ratios, wanted, 0.15, target="exact")


def _ours_stay_out(measured: Measurements) -> Finding:
    return check.below(
        {
            f"{policy}/A-Greedy, against {case}, n={n}": measured.ratio(
                "cost", {"policy": policy}, {"policy": A_GREEDY}, case=case, how="sampled", n=n
            )
            for policy in (FOLLOWING, AUTO)
            for case in ("independent", "localswaps")
            for n in measured.distinct("n", case=case)
        },
        1.1,
    )


experiment = Experiment(
    name="worst-cases",
    title="Worst cases of Independent and LocalSwaps",
    paper=PAPER,
    cast=CAST,
    section="4.5 and 4.6",
    figures=("4.5.1", "4.6.1"),
    varies="number of filters n",
    fixed="values uniform over 1 to 100, equal costs; exact statistics, and sampled as in Table 4.1",
    trials=_trials,
    claims=(
        Claim("Independent pays 0.49 n + 0.51 evaluations per tuple",
              lambda m: _figures(m, "independent", INDEPENDENT, lambda n: 0.49 * n + 0.51)),
        Claim("where A-Greedy pays 1.49",
              lambda m: _figures(m, "independent", A_GREEDY, lambda n: 1.49)),
        Claim("LocalSwaps pays (n + 1) / 2",
              lambda m: _figures(m, "localswaps", LOCAL_SWAPS, lambda n: (n + 1) / 2)),
        Claim("where A-Greedy pays 1 + 1/n",
              lambda m: _figures(m, "localswaps", A_GREEDY, lambda n: 1 + 1 / n)),
        Claim("Independent's trap holds with sampled statistics too (cost / A-Greedy's within 15 % of the exact ratio)",
              lambda m: _sampled(m, "independent", INDEPENDENT), source="ours"),
        Claim("LocalSwaps' trap holds with sampled statistics too (cost / A-Greedy's within 15 % of the exact ratio)",
              lambda m: _sampled(m, "localswaps", LOCAL_SWAPS), source="ours"),
        Claim("agreedy as shipped and auto stay out of both traps (useful work at most 1.1 times A-Greedy's)",
              _ours_stay_out, source="ours"),
    ),
    panels=(
        Panel("independent", "Against Independent, sampled: useful work", "n", "cost", "filters n",
              "evaluations per tuple", where={"case": "independent", "how": "sampled"}),
        Panel("localswaps", "Against LocalSwaps, sampled: useful work", "n", "cost", "filters n",
              "evaluations per tuple", where={"case": "localswaps", "how": "sampled"}),
    ),
    notes=(
        "The printed figures of the second example, 50 (n + 1) and 1 + 200/n, mix totals over the 100 values with "
        "costs per tuple; per tuple they are (n + 1)/2 and 1 + 1/n.",
        "n divides 100 in the second case, so that the blocks are equal.",
    ),
)  # fmt: skip
