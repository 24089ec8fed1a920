"""`python -m benchmarks.index [--quick]`: on J with routes that follow the phases, and on a stable join."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from benchmarks.index.contenders import BATCH, COUNTED, ORACLE, PHASES, Hindsight, Pass, Recorder, run
from benchmarks.index.report import markdown, plot
from benchmarks.joins import thalweg_runs
from benchmarks.joins.thalweg_runs import Chooser
from benchmarks.joins.workloads import J_SEEDS, Workload, j, steady
from benchmarks.markdown import wrapped
from thalweg.optimize.indexes.amri import PAPER, Amri
from thalweg.profile.prices import RECORDED, Prices

HERE = Path(__file__).parent
WARM_UP = 15_000
"""In milliseconds: a whole window and a phase."""
TIMES = 3
"""Passes for the timings."""
SEED = J_SEEDS[40_000]
SEEDS = (11, 12, 13)
"""Other draws of J, because a result must not hold for one only."""
BUCKETS = (0.75, 1.0)
"""Other prices of a bucket, in candidates: measurements scatter around the recorded 0.9."""


def main(
    quick: Annotated[bool, typer.Option(help="Half the data, fewer contenders; stays in out/.")] = False,
    out: Annotated[Path | None, typer.Option(help="Where the report goes.")] = None,
) -> None:
    console = Console()
    w = j(20_000 if quick else 40_000)
    routes = thalweg_runs.hindsight(w, w.data, batch=BATCH).oracle()
    drifting = race(w, routes, console, hashes=(1, 3, 7) if quick else (1, 2, 3, 4, 5, 6, 7))
    stable = steady_race(console, 20_000 if quick else 160_000)
    others = {}
    for seed in SEEDS[:1] if quick else SEEDS:
        drawn = j(w.tuples, seed=seed)
        known = thalweg_runs.hindsight(drawn, drawn.data, batch=BATCH).oracle()
        others[str(seed)] = short_race(drawn, known, console, f"seed {seed}")
    for share in BUCKETS:
        prices = replace(RECORDED, bucket=share * RECORDED.candidate)
        others[f"{SEED}, a bucket at {share:g} of a candidate"] = short_race(w, routes, console, f"{share:g}", prices)
    record = summary(w, drifting, stable, others)
    folder = out or (Path("out/benchmarks/index") if quick else HERE)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    (folder / "results.md").write_text(wrapped([markdown(record)]), encoding="utf-8")
    plot(folder / "work.png", drifting, BATCH)
    console.print(markdown(record), markup=False, highlight=False)


def race(w: Workload, routes: Chooser, console: Console, hashes: tuple[int, ...]) -> list[Pass]:
    """Run all contenders on one workload and one table of routes."""
    run(j(3_000), "warm-up", "written", tuner=Amri(window=100, period=100))
    recorder = Recorder()
    passes = []

    def go(name: str, times: int = 1, **options: Any) -> None:
        console.print(f"{w.name}: {name}", style="dim")
        passes.append(median([run(w, name, routes, **(options | fresh(options))) for _ in range(times)]))

    go("bits, equal shares", tuner=recorder)
    whole = recorder.best(range(PHASES))
    go("bits, best static (hindsight)", tuner=Hindsight(layouts=dict.fromkeys(range(PHASES), whole)))
    go(ORACLE, tuner=Hindsight(layouts={p: recorder.best([p]) for p in range(PHASES)}))
    go("amri", tuner=Amri(), times=TIMES)
    go("amri partial", tuner=Amri(migration="partial"))
    go("amri hybrid", tuner=Amri(schedule="hybrid"))
    go("amri hybrid nothing", tuner=Amri(schedule="hybrid", migration="nothing"))
    go("amri-paper", tuner=Amri(**PAPER))
    for k in hashes:
        go(f"hashes {k}", tuner=Amri(assessment="sria", hashes=k))
    go("hash for each pattern", layout="hash")
    return agreed(passes)


def short_race(
    w: Workload, routes: Chooser, console: Console, label: str, prices: Prices = RECORDED
) -> list[Pass]:  # fmt: skip
    """Only hindsight and `amri`, both with these prices."""
    console.print(f"{w.name}: {label}", style="dim")
    recorder = Recorder(prices=prices)
    equal = run(w, "bits, equal shares", routes, tuner=recorder)
    oracle = Hindsight(layouts={p: recorder.best([p]) for p in range(PHASES)})
    return agreed([equal, run(w, ORACLE, routes, tuner=oracle), run(w, "amri", routes, tuner=Amri(prices=prices))])


def agreed(passes: list[Pass]) -> list[Pass]:
    """The passes, provided that all gave the same number of results."""
    if len({p.results for p in passes}) != 1:
        raise AssertionError(f"answers differ: {[(p.name, p.results) for p in passes]}")
    return passes


def fresh(options: dict[str, Any]) -> dict[str, Any]:
    """A tuner learns, so each pass gets a new one."""
    tuner = options.get("tuner")
    return {"tuner": replace(tuner)} if isinstance(tuner, Amri) else {}


def median(passes: list[Pass]) -> Pass:
    """Of several passes of one contender, which count the same work, the one with the median share of tuning time."""
    if len({p.work for p in passes}) != 1:
        raise AssertionError(f"{passes[0].name}: the same pass did not do the same work")
    return sorted(passes, key=lambda p: p.tuning)[len(passes) // 2]


def steady_race(console: Console, tuples: int) -> list[Pass]:
    """The cost of tuning when access patterns never change."""
    w = steady(tuples, 10_000)
    recorder = Recorder()
    run(w, "recorded", "written", tuner=recorder)
    best = recorder.best([0])
    passes = []
    for name, tuner in (
        ("bits, best static (hindsight)", Hindsight(layouts=dict.fromkeys(range(PHASES), best))),
        ("amri", Amri()),
        ("amri-paper", Amri(**PAPER)),
    ):
        console.print(f"stable: {name}", style="dim")
        times = TIMES if name == "amri" else 1
        each = [replace(tuner) if isinstance(tuner, Amri) else tuner for _ in range(times)]
        passes.append(median([run(w, name, "written", tuner=t) for t in each]))
    return passes


def summary(
    w: Workload, drifting: list[Pass], stable: list[Pass], others: dict[str, list[Pass]]
) -> dict[str, Any]:  # fmt: skip
    oracle = next(p for p in drifting if p.name == ORACLE)

    def line(p: Pass, against: Pass, warm_up: int) -> dict[str, Any]:
        return {
            "name": p.name, **{what: p.after(warm_up, what) for what in COUNTED},
            "against": round(p.after(warm_up) / against.after(warm_up), 3),
            "candidates against": round(p.after(warm_up, "candidates") / against.after(warm_up, "candidates"), 3),
            "cpu": round(p.cpu, 3), "tuning share": round(p.tuning, 4), "index bytes": p.bytes,
            "moved": p.moved, "changes": p.changes,
        }  # fmt: skip

    return {
        "workload": w.name,
        "batch": BATCH,
        "warm-up": WARM_UP,
        "results": oracle.results,
        "drifting": [line(p, oracle, WARM_UP) for p in drifting],
        "stable": [line(p, stable[0], WARM_UP) for p in stable],
        "others": {label: [line(p, passes[1], WARM_UP) for p in passes] for label, passes in others.items()},
        "prices": RECORDED.record(),
    }


if __name__ == "__main__":
    typer.run(main)
