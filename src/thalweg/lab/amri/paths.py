"""Figure 10: the number of query paths that the streams call for (AMRI, section 9.5)."""

from __future__ import annotations

from collections.abc import Callable

from thalweg.lab import check
from thalweg.lab.amri.alternatives import SEEDS, SETTING, SOURCE, results_over, sizes
from thalweg.lab.amri.rivals import AMRI, LENIENT, OURS, hashed
from thalweg.lab.amri.streams import synthetic
from thalweg.lab.amri.trial import Contender, compare
from thalweg.lab.experiment import Claim, Experiment, Finding, Measurements, Panel, Trial

ORDERS = {"10(a) constant": 1, "10(b) single, adapting": 2, "10(e) few": 3, "10(d) average": 4, "10(c) many": 6}
HASHES = (1, 3, 5)


def _trials(quick: bool, seed: int) -> list[Trial]:
    contenders = (
        Contender(AMRI, LENIENT),
        Contender(OURS, {}),
        *(hashed(k) for k in HASHES),
    )
    return [
        Trial(
            f"{figure}, seed {s}",
            compare,
            {"make": synthetic, "arguments": sizes(quick) | {"orders": n}, "contenders": contenders, "seed": s},
        )
        for figure, n in ORDERS.items()
        for s in range(seed, seed + SEEDS)
    ]


def _wins(index: str, orders: tuple[int, ...]) -> Callable[[Measurements], Finding]:
    def decide(measured: Measurements) -> Finding:
        ratios = {}
        for n in orders:
            rivals = [hashed(k).name for k in HASHES]
            best = max(rivals, key=lambda r: measured.estimate("throughput", index=r, orders=n).mean)
            ratios[f"{n} orders, over {best}"] = measured.ratio(
                "throughput", {"index": index}, {"index": best}, orders=n
            )
        return check.above(ratios, 1.0)

    return decide


experiment = Experiment(
    name="10", title="Number of query paths", paper=SOURCE, section="9.5",
    figures=("10(a)", "10(b)", "10(c)", "10(d)", "10(e)"),
    varies="between how many orders the phases alternate: " + ", ".join(f"{k}: {v}" for k, v in ORDERS.items()),
    fixed=SETTING, trials=_trials,
    claims=(
        Claim("AMRI gives more results than the best of 1, 3 and 5 hash indexes where paths change", _wins(AMRI, (2, 3, 4, 6))),
        Claim("Ours does", _wins(OURS, (2, 3, 4, 6)), "ours"),
        Claim("On a constant path AMRI keeps up with hash indexes", _wins(AMRI, (1,))),
    ),
    panels=(
        *(results_over("time", "time curve", f"{figure[3]}-time", figure, orders=n) for figure, n in ORDERS.items()),
        *(results_over("work", "curve", f"{figure[3]}-work", figure, orders=n) for figure, n in ORDERS.items()),
        Panel("throughput", "Results by work", "orders", "throughput", "orders that take turns", "per million", series="index"),
        Panel("work", "Work for all results", "orders", "work", "orders that take turns", "work", series="index"),
    ),
    notes=("A pair's attribute is one for both of its streams, so paths can't be set stream by stream as in the paper: "
           "counted are the roles of the matchings, of which six give every stream all its six paths.",),
)  # fmt: skip
