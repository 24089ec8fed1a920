"""Figures 5.11 to 5.16, 5.19 and 5.20: the benefit of one cache, R ⋈ S before the joins of T's rows (thesis 5.8.3)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from thalweg.lab import check
from thalweg.lab.chapter5.contenders import DELETIONS, LIVES, MODES, PAPER, M, Row, X, found, measured, relatives
from thalweg.lab.chapter5.streams import Q3, SCANNED, three
from thalweg.lab.elements.mjoin import MJoin
from thalweg.lab.experiment import Claim, Experiment, Finding, Measurements, Panel, Trial, Value
from thalweg.optimize.caches.candidates import candidates

C = "R ⋈ S cached"
CAST = (M, X, C)
ORDERS = {0: (1, 2), 1: (0, 2), 2: (1, 0)}
"""Those under which the rows of R and S keep the cache up on their way; it is then the only candidate."""


def cached(x: float, settings: Mapping[str, Any], seed: int) -> list[Row]:
    """The best MJoin, the best tree, and the cache forced in."""
    rows: list[Row] = []
    streams = three(seed=seed, **settings)
    for mode, deletions in MODES.items():
        plans = found(streams, 2_000, deletions=deletions, caches=False)
        plans[C] = MJoin(streams.join, ORDERS, candidates(ORDERS, streams.join.graph), deletions=deletions)
        rows += measured(streams, plans, {"x": x, "mode": mode, "seed": seed})
    return rows


def _trials(settings: Mapping[float, Mapping[str, Any]], quick: bool, seed: int) -> list[Trial]:
    values, window, seeds = (150, 30, 3) if quick else (300, 60, 10)
    return [
        Trial(f"{x:g}, seed {s}", cached,
              {"x": x, "settings": {"values": values, "window": window, "repeats": 5, "join": Q3, **own}, "seed": s})
        for x, own in settings.items() for s in range(seed, seed + seeds)
    ]  # fmt: skip


def _relative(m: Measurements, column: str = "work", mode: str = DELETIONS, over: str = C) -> dict[str, Any]:
    return relatives(m, over, M, "x", column, mode=mode)


def _only(m: Measurements, column: str, mode: str, *xs: float) -> dict[str, Any]:
    every = _relative(m, column, mode)
    return {f"x {x}": every[f"x {x}"] for x in xs}


def _steps(m: Measurements, column: str = "work") -> dict[Value, Any]:
    """The relative cost of the cached plan at each x, by seed."""
    return {x: m.by_seed(f"relative {column}", policy=C, mode=DELETIONS, x=x) for x in m.distinct("x")}


def _falls(m: Measurements, column: str) -> Finding:
    return check.below({f"MJoin = 1, {column}, for each step": check.slope(_steps(m, column))}, 0.0)


def _rises(m: Measurements, column: str) -> Finding:
    return check.above({f"MJoin = 1, {column}, for each step": check.slope(_steps(m, column))}, 0.0)


def _wins(m: Measurements, *xs: float) -> Finding:
    """In work and in time, with rows joined again."""
    return check.both(*(check.below({f"{k}, {column}": e for k, e in _only(m, column, DELETIONS, *xs).items()}, 1.0)
                        for column in ("work", "microseconds")))  # fmt: skip


def panels(xlabel: str, *, logx: bool = False) -> tuple[Panel, ...]:
    return (
        Panel("absolute", "Work for an element, as in the thesis", "x", "work", xlabel, "probes, records, updates",
              where={"mode": DELETIONS}, logx=logx),
        Panel("relative", "Work, MJoin = 1, as in the thesis", "x", "relative work", xlabel, "times the MJoin's",
              where={"mode": DELETIONS}, logx=logx),
        Panel("time", "Processor time, MJoin = 1, as in the thesis", "x", "relative microseconds", xlabel,
              "times the MJoin's", where={"mode": DELETIONS}, logx=logx),
        Panel("lives", "Work, MJoin = 1, rows that leave are not joined", "x", "relative work", xlabel,
              "times the MJoin's", where={"mode": LIVES}, logx=logx),
    )  # fmt: skip


SECTION = "5.8.3"
FIXED = "Q3, values in the same order in all streams, windows of 60 values"
NOTE = (
    "The relative graphs of the thesis show rates, MJoin over cached; with one processor that is the cached plan's cost over "
    "the MJoin's, as here. Time is that of this interpreter."
)

REPEATED = {float(r): {"repeats": r} for r in (1, 2, 3, 5, 7, 10)}
hits = Experiment(
    name="5.11-5.12", title="Cache hit probability", paper=PAPER, section=SECTION, figures=("5.11", "5.12"),
    varies="r: how often T repeats a value", fixed=FIXED, trials=partial(_trials, REPEATED), cast=CAST,
    claims=(
        Claim("The hit probability follows r: 1 - 1/(2r), because each insertion returns as a deletion.",
              lambda m: check.within({f"r {r:g}": m.estimate("hits", policy=C, mode=DELETIONS, x=r) for r in REPEATED},
                                     {f"r {r:g}": 1 - 1 / (2 * r) for r in REPEATED}, 0.02, "expected")),
        Claim("The gain grows with the hit probability, in work.", lambda m: _falls(m, "work")),
        Claim("The gain grows with the hit probability, in time.", lambda m: _falls(m, "microseconds")),
        Claim("The cache wins at r = 10, in work and in time.", lambda m: _wins(m, 10.0)),
        Claim("The cache wins even where no value repeats (r = 1), in work and in time.", lambda m: _wins(m, 1.0)),
        Claim("Where rows that leave are not joined again, the cache loses at r = 1, in work.",
              lambda m: check.above(_only(m, "work", LIVES, 1.0), 1.0), "ours"),
        Claim("It then wins from r = 5 on, in work.", lambda m: check.below(_only(m, "work", LIVES, 5.0, 7.0, 10.0), 1.0), "ours"),
    ),
    panels=panels("r"), notes=(NOTE,),
)  # fmt: skip

SELECTIVE: dict[float, dict[str, Any]] = {
    **{s: {"matching": s} for s in (0.25, 0.5)},
    **{float(s): {"multiplicity": s} for s in (1, 2, 4, 8)},
}
selectivity = Experiment(
    name="5.13-5.14", title="Join selectivity", paper=PAPER, section=SECTION, figures=("5.13", "5.14"),
    varies="rows of R ⋈ S for each row of T", fixed=f"{FIXED}, r = 5", trials=partial(_trials, SELECTIVE), cast=CAST,
    claims=(
        Claim("The cache wins over the whole range, in work and in time.", lambda m: _wins(m, *SELECTIVE)),
        Claim("The relative gain is least near 1: it is larger at 0.25 and at 8, in work.",
              lambda m: check.above({f"1 minus {x:g}": m.difference("relative work", {"x": 1.0}, {"x": x}, policy=C,
                                                                    mode=DELETIONS) for x in (0.25, 8.0)}, 0.0)),
    ),
    panels=panels("rows of R ⋈ S for a row of T", logx=True),
    notes=(NOTE, "Below 1, rows of R have no partner in S; above 1, S has several rows of a value."),
)  # fmt: skip

UPDATED = {every / 5: {"every": every} for every in (1, 2, 3, 5, 8, 12, 20)}
updates = Experiment(
    name="5.15-5.16", title="Updates and probes of the cache", paper=PAPER, section=SECTION, figures=("5.15", "5.16"),
    varies="rate of new rows of R ⋈ S over the rate of T", fixed=f"{FIXED}, r = 5", trials=partial(_trials, UPDATED), cast=CAST,
    claims=(
        Claim("The gain falls as updates become more frequent, in work.", lambda m: _rises(m, "work")),
        Claim("The gain falls as updates become more frequent, in time.", lambda m: _rises(m, "microseconds")),
        Claim("The cache still wins where updates are more frequent than probes (1.6 to 1), in work.",
              lambda m: check.below(_only(m, "work", DELETIONS, 1.6), 1.0)),
        Claim("It does so in time.", lambda m: check.below(_only(m, "microseconds", DELETIONS, 1.6), 1.0)),
    ),
    panels=panels("updates for each probe", logx=True),
    notes=(NOTE, "T repeats every k-th value five times; R and S have all values."),
)  # fmt: skip

SIZES: dict[float, dict[str, Any]] = {
    float(n): {"window": n, "values": 3 * n, "join": SCANNED} for n in (25, 50, 100, 200)
}
costs = Experiment(
    name="5.19-5.20", title="Join cost: no index on S.B", paper=PAPER, section=SECTION, figures=("5.19", "5.20"),
    varies="rows in the window of S, which T's rows look through", fixed="Q3, values in the same order, r = 5",
    trials=partial(_trials, SIZES), cast=CAST,
    claims=(
        Claim("The relative gain grows with the cost of the join, in work.", lambda m: _falls(m, "work")),
        Claim("The relative gain grows with the cost of the join, in time.", lambda m: _falls(m, "microseconds")),
        Claim("It reaches 90 % (a cost of 0.1) and more with 200 rows, in work: here below 0.15.",
              lambda m: check.below(_only(m, "work", DELETIONS, 200.0), 0.15)),
    ),
    panels=panels("rows in the window of S", logx=True),
    notes=(NOTE, "The quick run uses the same windows.",
           "A miss looks through the window, too, so the cost comes no lower than the share of misses, 0.1 at r = 5."),
)  # fmt: skip
