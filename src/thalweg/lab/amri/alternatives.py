"""Figure 8: which assessment, which schedule, which migration (AMRI, section 9.2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from thalweg.lab import check
from thalweg.lab.amri.streams import synthetic
from thalweg.lab.amri.trial import PAPER, Contender, compare
from thalweg.lab.experiment import Claim, Experiment, Finding, Measurements, Panel, Trial, Value
from thalweg.optimize.indexes.amri import ASSESSMENTS
from thalweg.optimize.indexes.migrate import MIGRATIONS
from thalweg.optimize.indexes.schedule import SCHEDULES

SOURCE = "Works et al., Optimizing adaptive multi-route query processing via time-partitioned indices (JCSS 2013)"
OURS = "as Thalweg has it"
SETTING = "4 streams, complete join; window 10,000 tuples (quick: 800), slices of a quarter, roles change every half"
SEEDS = 3


def sizes(quick: bool) -> dict[str, Any]:
    return {"tuples": 2_400, "window": 800} if quick else {"tuples": 30_000, "window": 10_000}


def trials(
    contenders: Sequence[Contender], make: Callable[..., Any] = synthetic, **more: Any
) -> Callable[[bool, int], list[Trial]]:
    def made(quick: bool, seed: int) -> list[Trial]:
        return [
            Trial(
                f"seed {s}",
                compare,
                {"make": make, "arguments": sizes(quick) | more, "contenders": tuple(contenders), "seed": s},
            )
            for s in range(seed, seed + SEEDS)
        ]

    return made


def more_than(best: str, others: Sequence[str]) -> Callable[[Measurements], Finding]:
    """One contender has a higher throughput than each of the others."""

    def decide(measured: Measurements) -> Finding:
        ratios = {f"over {o}": measured.ratio("throughput", {"index": best}, {"index": o}) for o in others}
        return check.above(ratios, 1.0)

    return decide


def results_over(spent: str, curve: str, name: str = "", of: str = "", **where: Value) -> Panel:
    """Cumulative results, as in the paper's figures, until half of the contenders have found them all."""
    unit = f"{'CPU time' if spent == 'time' else spent}, in 40ths of what the median needs"
    title = f"{of}: results over {spent}" if of else f"Results over {spent}"
    return Panel(name or spent, title, spent, curve, unit, "results", "timeline", series="index", where=where)


def panels() -> tuple[Panel, ...]:
    return (
        results_over("work", "curve"),
        results_over("time", "time curve"),
        Panel("units", "Work for all results", "index", "work", "", "buckets, candidates, entries", "bars", series=""),
        Panel("seconds", "CPU time for all results", "index", "seconds", "", "seconds of CPU", "bars", series=""),
        Panel("candidates", "Candidates examined", "index", "candidates", "", "candidates", "bars", series=""),
        Panel("hashes", "Hashes computed", "index", "hashes", "", "attributes hashed", "bars", series=""),
        Panel("moved", "Rows moved", "index", "moved", "", "rows", "bars", series=""),
        Panel("bytes", "Memory of indexes", "index", "bytes", "", "bytes, at most", "bars", series=""),
    )  # fmt: skip


def _experiment(
    name: str, title: str, varies: str, settings: Mapping[str, Mapping[str, Any]], claims: tuple[Claim, ...]
) -> Experiment:
    contenders = [Contender(n, PAPER | dict(s)) for n, s in settings.items()]
    contenders.append(Contender(OURS, {}))
    return Experiment(
        name=name,
        title=title,
        paper=SOURCE,
        section="9.2",
        figures=(f"{name[:1]}({name[1:]})",),
        varies=varies,
        fixed=SETTING + "; the paper's ε = 0.05, θ = 0.1; else cdia-highest, hybrid, nothing",
        trials=trials(contenders),
        claims=claims,
        panels=panels(),
        cast=tuple(c.name for c in contenders),
        notes=(
            f"'{OURS}': ε = 0.002, θ = 0.01, a floor of three bits for each attribute, a hundredth of the requests insured "
            "against scans, continuous, all.",
            "Throughput is results per million units of work. Curves end when half of the contenders are done.",
            "The first window is for training and does not count.",
        ),
    )


assessments = _experiment(
    "8a", "Assessment methods", "the assessment", {a: {"assessment": a} for a in ASSESSMENTS},
    (
        Claim(
            "CDIA with highest count gives more results than SRIA and DIA (19 %) and CSRIA (30 %)",
            more_than("cdia-highest", ["sria", "dia", "csria"]),
        ),
        Claim("CDIA with random combination gives more than CSRIA", more_than("cdia-random", ["csria"])),
    ),
)  # fmt: skip
schedules = _experiment(
    "8b", "Schedules", "the schedule", {s: {"schedule": s} for s in SCHEDULES},
    (
        Claim(
            "Hybrid gives more results than continuous (18 %), periodic (65 %) and triggered (29 %)",
            more_than("hybrid", ["continuous", "periodic", "triggered"]),
        ),
    ),
)  # fmt: skip
migrations = _experiment(
    "8c", "Migrations", "the migration", {m: {"migration": m} for m in MIGRATIONS},
    (
        Claim("Migrating nothing gives more results than migrating all or part (19 %)", more_than("nothing", ["all", "partial"])),
        Claim(
            "Migrating pays here: all and partial give more results than nothing",
            lambda m: check.both(more_than("all", ["nothing"])(m), more_than("partial", ["nothing"])(m)), "ours",
        ),
    ),
)  # fmt: skip
