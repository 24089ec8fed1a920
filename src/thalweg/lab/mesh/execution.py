"""Figures 10 and 11 on filters: work per tuple, overhead, output over time.

SP is the best single order, exact, as a compile-time optimizer with perfect statistics would choose it. MR+CBR is
content-based routing. Work is counted. For overhead and output over time (10c, 11) the policies' own processor time is
measured, and each operator is taken to cost 50 µs.
"""

from __future__ import annotations

import numpy as np

from thalweg import optimize
from thalweg.lab import check
from thalweg.lab.estimate import Estimate
from thalweg.lab.experiment import Claim, Experiment, Measurements, Panel, Trial, Value
from thalweg.lab.mesh.streams import CAST, MR, OPERATORS, PAPER, QM, SP, on_both_kinds, stream, work_ratio
from thalweg.lab.simulate import best_order, run, timed
from thalweg.plan import Operator, Pipeline


def execution(kind: str, tuples: int, seed: int) -> list[dict[str, Value]]:
    bits, columns = stream(kind, tuples, np.random.default_rng([seed, 10]))
    costs = [1.0] * OPERATORS
    single = best_order(bits, costs)[1] / tuples
    rows: list[dict[str, Value]] = [{"policy": SP, "data": kind, "seed": seed, "work": single}]
    for name, policy in ((MR, "cbr"), (QM, "mesh")):
        done = run(policy, bits, costs, seed=seed, columns=columns)
        rows.append({"policy": name, "data": kind, "seed": seed, "work": done.work / tuples,
                     "profiling": 100 * float(done.extra.sum()) / done.work})  # fmt: skip
    return rows


def _execution_trials(quick: bool, seed: int) -> list[Trial]:
    return on_both_kinds(execution, *((40_000, 3) if quick else (200_000, 10)), seed)


executions = Experiment(
    name="mesh-10", title="Execution: uniform and Poisson data", paper=PAPER, section="6.2", figures=("mesh-10",),
    varies="distribution of the attributes", fixed="6 operators of equal cost, 6 attributes, batches of 1,000",
    trials=_execution_trials,
    claims=(
        Claim("On uniform data, the worst case, QM is only slightly worse than SP (2.2 %): here within 5 %, sampling included.",
              lambda m: check.below(work_ratio(m, QM, SP, "uniform"), 1.05)),
        Claim("On uniform data QM does better than MR+CBR.", lambda m: check.below(work_ratio(m, QM, MR, "uniform"), 1.0)),
        Claim("On Poisson data QM does better than SP (44 % higher output rate).",
              lambda m: check.below(work_ratio(m, QM, SP, "poisson"), 1.0)),
        Claim("On Poisson data QM does better than MR+CBR (18 to 27 %).",
              lambda m: check.below(work_ratio(m, QM, MR, "poisson"), 1.0)),
        Claim("Runtime overhead of QM is below 2 % of the execution (figure 10c): here, sampling only.",
              lambda m: check.below({"sampling, % of work": m.estimate("profiling", policy=QM, data="poisson")}, 2.0)),
    ),
    panels=(Panel("work", "Operator evaluations per tuple", "data", "work", "", "evaluations per tuple", kind="bars"),),
    cast=CAST,
    notes=("SP knows all tuples in advance. QM and MR+CBR learn while they run, and all of that is counted.",),
)  # fmt: skip


COST = 50.0
"""Cost of an operator in microseconds, where time is reported."""
PLAIN = "MR+CBR, no batching"
FEW = 50
"""Tuples routed together without batching. One by one would measure little more than Python's calls."""


def over_time(tuples: int, seed: int) -> list[dict[str, Value]]:
    """Share of the time that a policy takes for itself, and its output at several points of SP's run."""
    bits, columns = stream("poisson", tuples, np.random.default_rng([seed, 11]))
    pipeline = Pipeline("s", tuple(Operator(f"f{i}") for i in range(OPERATORS)))
    single = best_order(bits, [1.0] * OPERATORS)[1] * COST
    here: dict[str, Value] = {"seed": seed}
    parts = (25, 50, 75, 100)
    whole = int(bits.all(axis=1).sum())
    rows = [here | {"policy": SP, "share": 0.0}]
    rows += [here | {"policy": SP, "time": t, "output": whole * t / 100} for t in parts]
    for name, policy, batch in ((QM, "mesh", 1000), (MR, "cbr", 1000), (PLAIN, "cbr", FEW)):
        times = timed(optimize.make(policy, pipeline, seed), bits, columns, batch)
        own = 1e6 * (times.routing + times.learning)
        spent = np.cumsum(times.work * COST + own)
        out = np.cumsum(np.add.reduceat(bits.all(axis=1), np.arange(0, tuples, batch)))
        rows.append(here | {"policy": name, "share": 100 * float(own.sum() / spent[-1])})
        for t in parts:
            now = single * t / 100
            # The stream does not end with our tuples: beyond them, output continues at the mean rate.
            put = float(np.interp(now, spent, out)) if now < spent[-1] else float(out[-1] * now / spent[-1])
            rows.append(here | {"policy": name, "time": t, "output": put})
    return rows


def _over_time_trials(quick: bool, seed: int) -> list[Trial]:
    tuples, seeds = (10_000, 2) if quick else (40_000, 6)
    return [Trial(f"seed {s}", over_time, {"tuples": tuples, "seed": s}) for s in range(seed, seed + seeds)]


def _outputs(measured: Measurements, under: str, times: tuple[int, ...]) -> dict[str, Estimate]:
    return {f"QM/{under} at {t} %": measured.ratio("output", {"policy": QM}, {"policy": under}, time=t) for t in times}


rates = Experiment(
    name="mesh-10c-11", title="Overhead and output over time", paper=PAPER, section="6.2", figures=("mesh-10c", "mesh-11"),
    varies="policy; batches of 1,000 or, without batching, of 50", fixed=f"Poisson data, 6 operators of {COST:g} µs",
    trials=_over_time_trials,
    claims=(
        Claim("Runtime overhead of QM is below 2 % of the execution.",
              lambda m: check.below({"QM, % of the time": m.estimate("share", policy=QM)}, 2.0)),
        Claim("Without batching MR+CBR has far more overhead (20 %) than QM.",
              lambda m: check.above({"no batching/QM": m.ratio("share", {"policy": PLAIN}, {"policy": QM})}, 2.0)),
        Claim("QM produces more output than SP at any time.", lambda m: check.above(_outputs(m, SP, (25, 50, 75, 100)), 1.0)),
        Claim("QM produces more output than MR+CBR, with and without batching.",
              lambda m: check.above(_outputs(m, MR, (100,)) | _outputs(m, PLAIN, (100,)), 1.0)),
    ),
    panels=(
        Panel("share", "Time that a policy takes for itself", "policy", "share", "", "% of the time", kind="bars", series=""),
        Panel("output", "Output tuples", "time", "output", "time, % of SP's whole run", "tuples"),
    ),
    cast=(*CAST, PLAIN),
    notes=("Measured processor time on this machine. Operators are not run; their time is calls times cost.",),
)  # fmt: skip
