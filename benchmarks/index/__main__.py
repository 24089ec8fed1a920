"""`python -m benchmarks.index [--quick]`: on J with routes that follow the phases, and on a stable join."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from benchmarks.index.contenders import BATCH, PHASES, Hindsight, Pass, Recorder, run
from benchmarks.index.report import markdown, plot
from benchmarks.joins import thalweg_runs
from benchmarks.joins.workloads import Workload, j, steady
from thalweg.optimize.amri import Amri

HERE = Path(__file__).parent
WARM_UP = 15_000
"""Milliseconds: a whole window and a phase."""


def main(
    quick: Annotated[bool, typer.Option(help="Half the data, fewer contenders; stays in out/.")] = False,
    out: Annotated[Path | None, typer.Option(help="Where the report goes.")] = None,
) -> None:
    console = Console()
    w = j(20_000 if quick else 40_000)
    drifting = race(w, console, hashes=(1, 3, 7) if quick else (1, 2, 3, 4, 5, 6, 7))
    stable = steady_race(console, 20_000 if quick else 160_000)
    record = summary(w, drifting, stable)
    folder = out or (Path("out/benchmarks/index") if quick else HERE)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    (folder / "results.md").write_text(markdown(record), encoding="utf-8")
    plot(folder / "work.png", drifting, BATCH)
    console.print(markdown(record), markup=False, highlight=False)


def race(w: Workload, console: Console, hashes: tuple[int, ...]) -> list[Pass]:
    """All contenders over one workload and one table of routes."""
    routes = thalweg_runs.hindsight(w, w.data, batch=BATCH).oracle()
    run(j(3_000), "warm-up", "written", tuner=Amri(window=100, period=100), layout="bits")
    recorder = Recorder()
    passes = []

    def go(name: str, **options: Any) -> Pass:
        console.print(f"{w.name}: {name}", style="dim")
        passes.append(run(w, name, routes, **options))
        return passes[-1]

    go("bits, equal shares", layout="bits", tuner=recorder)
    whole = recorder.best(range(PHASES))
    go("bits, best static (hindsight)", tuner=Hindsight(layouts=dict.fromkeys(range(PHASES), whole)))
    go("bits, best of each phase (oracle)", tuner=Hindsight(layouts={p: recorder.best([p]) for p in range(PHASES)}))
    go("amri", tuner=Amri())
    go("amri partial", tuner=Amri(migration="partial"))
    go("amri continuous partial", tuner=Amri(schedule="continuous", migration="partial"))
    go("amri continuous all", tuner=Amri(schedule="continuous", migration="all"))
    for k in hashes:
        go(f"hashes {k}", tuner=Amri(assessment="sria", hashes=k))
    go("hash for each pattern", layout="hash")
    if len({p.results for p in passes}) != 1:
        raise AssertionError(f"answers differ: {[(p.name, p.results) for p in passes]}")
    return passes


def steady_race(console: Console, tuples: int) -> list[Pass]:
    """Access patterns that never change: what tuning costs then."""
    w = steady(tuples, 10_000)
    recorder = Recorder()
    run(w, "recorded", "written", layout="bits", tuner=recorder)
    best = recorder.best([0])
    passes = []
    for name, tuner in (
        ("bits, best static (hindsight)", Hindsight(layouts=dict.fromkeys(range(PHASES), best))),
        ("amri", Amri()),
        ("amri continuous partial", Amri(schedule="continuous", migration="partial")),
    ):
        console.print(f"stable: {name}", style="dim")
        passes.append(run(w, name, "written", tuner=tuner))
    return passes


def summary(w: Workload, drifting: list[Pass], stable: list[Pass]) -> dict[str, Any]:
    oracle = next(p for p in drifting if "oracle" in p.name)

    def line(p: Pass, against: Pass, warm_up: int) -> dict[str, Any]:
        return {
            "name": p.name, "work": p.after(warm_up), "against": round(p.after(warm_up) / against.after(warm_up), 3),
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
    }


if __name__ == "__main__":
    typer.run(main)
