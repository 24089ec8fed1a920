"""Runs trials, in this process or in several, and judges the outcome.

The rows do not depend on the number of processes: trials carry their own seeds, and results stay in the order of the
trials. Trials that read the wall clock run alone, after all others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from time import perf_counter

from thalweg.lab.experiment import Experiment, Measurements, Outcome, Row, Trial, judge


def run(
    experiments: Sequence[Experiment], *, quick: bool = False, seed: int = 7, jobs: int = 1,
    step: Callable[[Experiment, Trial], None] = lambda experiment, trial: None,
) -> list[Outcome]:  # fmt: skip
    """Run the experiments; `step` is called after every trial."""
    trials = [(e, t) for e in experiments for t in e.trials(quick, seed)]
    rows: dict[int, list[Row]] = {}
    spent = {e.name: 0.0 for e in experiments}

    def done(i: int, result: list[Row], seconds: float) -> None:
        rows[i] = result
        spent[trials[i][0].name] += seconds
        step(*trials[i])

    together = [i for i, (_, t) in enumerate(trials) if jobs > 1 and not t.alone]
    if together:
        # Not forked: Arrow's threads do not survive a fork.
        with ProcessPoolExecutor(min(jobs, len(together)), mp_context=get_context("spawn")) as pool:
            futures = {pool.submit(_timed, trials[i][1]): i for i in together}
            for future in as_completed(futures):
                done(futures[future], *future.result())
    for i in sorted(set(range(len(trials))) - rows.keys()):
        done(i, *_timed(trials[i][1]))
    outcomes = []
    for experiment in experiments:
        own = [r for i, (e, _) in enumerate(trials) if e is experiment for r in rows[i]]
        outcomes.append(judge(experiment, Measurements(tuple(own)), spent[experiment.name]))
    return outcomes


def _timed(trial: Trial) -> tuple[list[Row], float]:
    started = perf_counter()
    return list(trial()), perf_counter() - started
