"""Query mesh run again (Nehme et al. 2012): figures 10 to 13, on filters, on look-ups of tables and on a join of ten streams.

A stream of six attributes, uniform or Poisson; with Poisson three parts of it (by two of the attributes) have orders of
their own. SP is the best single order, exact, as a compile-time optimizer with perfect statistics would choose it; MR is
content-based routing. For execution (10a, b) work per tuple is counted, on filters, where the join engine looks six tables of
10,000 rows up (`lookups.py`), and where it joins ten streams (`tenstreams.py`); in the latter two also its processor time.
For output over time (10c, 11) the policies' own processor time is measured and operators take 50 µs each.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from thalweg import optimize
from thalweg.lab import check, lookups, tenstreams
from thalweg.lab.estimate import Estimate
from thalweg.lab.experiment import Claim, Experiment, Finding, Measurements, Panel, Trial, Value
from thalweg.lab.simulate import best_order, run, timed
from thalweg.lab.star import Star
from thalweg.lab.tenstreams import Chooser
from thalweg.optimize.classes.meshsearch import STARTS, Model, ii_qm, opt_qm, sa_qm
from thalweg.optimize.classes.routesearch import RouteSearch
from thalweg.plan import Operator, Pipeline
from thalweg.profile.content.induce import induce

PAPER = "Nehme, Works, Lei, Rundensteiner, Bertino: Multi-route query processing and optimization (2012)"
SP, MR, QM = "SP", "MR+CBR", "QM"
CAST = (SP, MR, QM)
OPERATORS, ATTRIBUTES, PARTS = 6, 6, 3


def attributes(kind: str, tuples: int, random: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Six attributes, and the part of each tuple. Poisson: whether two of the attributes are 0 makes three parts."""
    if kind == "uniform":
        return random.integers(0, 101, (tuples, ATTRIBUTES)).astype(float), np.zeros(tuples, np.int64)
    values = random.poisson(1.0, (tuples, ATTRIBUTES)).astype(float)
    return values, np.where(values[:, 0] == 0, 0, np.where(values[:, 1] == 0, 1, 2))


def stream(
    kind: str, tuples: int, random: np.random.Generator
) -> tuple[NDArray[np.bool_], dict[str, NDArray[np.float64]]]:
    """Verdicts and attributes."""
    values, part = attributes(kind, tuples, random)
    rates = np.array([random.permutation([0.05, 0.4, 0.7, 0.85, 0.95, 0.95]) for _ in range(PARTS)])
    bits = random.random((tuples, OPERATORS)) < rates[part]
    return bits, {f"a{j}": values[:, j] for j in range(ATTRIBUTES)}


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
    return _on_both_kinds(execution, *((40_000, 3) if quick else (200_000, 10)), seed)


def _on_both_kinds(go: Callable[..., list[dict[str, Value]]], tuples: int, seeds: int, seed: int) -> list[Trial]:
    return [
        Trial(f"{kind}, seed {s}", go, {"kind": kind, "tuples": tuples, "seed": s})
        for kind in ("uniform", "poisson")
        for s in range(seed, seed + seeds)
    ]


def _ratio(measured: Measurements, over: str, under: str, kind: str) -> dict[str, Estimate]:
    return {f"{over}/{under}, {kind}": measured.ratio("work", {"policy": over}, {"policy": under}, data=kind)}


executions = Experiment(
    name="mesh-10", title="Execution: uniform and Poisson data", paper=PAPER, section="6.2", figures=("mesh-10",),
    varies="distribution of the attributes", fixed="6 operators of equal cost, 6 attributes, batches of 1,000",
    trials=_execution_trials,
    claims=(
        Claim("On uniform data, the worst case, QM is little worse than SP (2.2 %): here within 5 %, sampling included.",
              lambda m: check.below(_ratio(m, QM, SP, "uniform"), 1.05)),
        Claim("On uniform data QM does better than MR+CBR.", lambda m: check.below(_ratio(m, QM, MR, "uniform"), 1.0)),
        Claim("On Poisson data QM does better than SP (44 % higher output rate).",
              lambda m: check.below(_ratio(m, QM, SP, "poisson"), 1.0)),
        Claim("On Poisson data QM does better than MR+CBR (18 to 27 %).",
              lambda m: check.below(_ratio(m, QM, MR, "poisson"), 1.0)),
        Claim("Runtime overhead of QM is below 2 % of the execution (figure 10c): here, sampling only.",
              lambda m: check.below({"sampling, % of work": m.estimate("profiling", policy=QM, data="poisson")}, 2.0)),
    ),
    panels=(Panel("work", "Operator evaluations per tuple", "data", "work", "", "evaluations per tuple", kind="bars"),),
    cast=CAST,
    notes=("SP knows all tuples beforehand; QM and MR+CBR learn while they run, and all of it is counted.",),
)  # fmt: skip


def looked_up(kind: str, tuples: int, seed: int) -> list[dict[str, Value]]:
    """The same streams, with operators that are tables; SP is an MJoin written in the best single order."""
    random = np.random.default_rng([seed, 12])
    bits, columns = stream(kind, tuples, random)
    drawn = Star(bits, np.zeros(tuples, np.int64), {n: v.astype(np.int64) for n, v in columns.items()})
    tuples_in, tables = lookups.tables(drawn, random)
    best = {f"d{i + 1}": tables[f"d{i + 1}"] for i in best_order(bits, [1.0] * OPERATORS)[0]}
    lookups.looked_up("written", tuples_in.slice(0, 2000), tables, seed)  # kernels are loaded before time counts
    rows: list[dict[str, Value]] = []
    for name, policy, asked in ((SP, "written", best), (MR, "cbr", tables), (QM, "mesh", tables)):
        work, took, found = lookups.looked_up(policy, tuples_in, asked, seed)
        assert found == bits.all(axis=1).sum(), f"{name} found {found} rows"
        rows.append(
            {"policy": name, "data": kind, "seed": seed, "work": work / tuples, "microseconds": 1e6 * took / tuples}
        )
    return rows


def _looked_up_trials(quick: bool, seed: int) -> list[Trial]:
    return _on_both_kinds(looked_up, *((30_000, 2) if quick else (100_000, 10)), seed)


def _times(measured: Measurements, under: str) -> dict[str, Estimate]:
    return {f"QM/{under}": measured.ratio("microseconds", {"policy": QM}, {"policy": under}, data="poisson")}


LITTLE_WORSE = Claim(
    "On uniform data QM is little worse than SP (2.2 %): here within 5 % of its work, sampling included.",
    lambda m: check.below(_ratio(m, QM, SP, "uniform"), 1.05),
)
LESS_WORK = (
    Claim("On Poisson data QM does less work than SP.", lambda m: check.below(_ratio(m, QM, SP, "poisson"), 1.0)),
    Claim("On Poisson data QM does less work than MR+CBR.", lambda m: check.below(_ratio(m, QM, MR, "poisson"), 1.0)),
    Claim("It takes less execution time than SP and MR+CBR, too.",
          lambda m: check.below(_times(m, SP) | _times(m, MR), 1.0)),
)  # fmt: skip
ENGINE_PANELS = (
    Panel("work", "Buckets and candidates per tuple", "data", "work", "", "per tuple", kind="bars"),
    Panel("time", "Processor time per tuple", "data", "microseconds", "", "µs", kind="bars"),
)
"""Where the join engine runs: what it takes to join a tuple."""

lookup_tables = Experiment(
    name="mesh-tables", title="The same with tables looked up by the join engine", paper=PAPER, section="6.2", figures=(),
    varies="distribution of the attributes", fixed="6 tables of 10,000 rows, 6 attributes, batches of 1,000",
    trials=_looked_up_trials,
    claims=(LITTLE_WORSE, *LESS_WORK),
    panels=ENGINE_PANELS,
    cast=CAST,
    notes=("Processor time of this machine, measured, of the whole engine.",),
)  # fmt: skip


KNOWS = "knows"


def joined(kind: str, tuples: int, seed: int) -> list[dict[str, Value]]:
    """The join of ten streams; all contenders must find the same number of results."""
    streams = tenstreams.draw(partial(attributes, kind), tuples, np.random.default_rng([seed, 13]))
    tenstreams.joined("written", streams, seed, 2 * tenstreams.BATCH)  # kernels are loaded before time counts
    rows: list[dict[str, Value]] = []
    results = set()
    contenders: tuple[tuple[str, Chooser], ...] = (
        (SP, tenstreams.single(streams)), (MR, "cbr"), (QM, "mesh"), (KNOWS, tenstreams.knowing(streams)),
    )  # fmt: skip
    for name, policy in contenders:
        work, took, found = tenstreams.joined(policy, streams, seed)
        results.add(found)
        rows.append(
            {"policy": name, "data": kind, "seed": seed, "work": work / streams.tuples,
             "microseconds": 1e6 * took / streams.tuples}
        )  # fmt: skip
    assert len(results) == 1, f"results differ: {results}"
    return rows


def _joined_trials(quick: bool, seed: int) -> list[Trial]:
    return _on_both_kinds(joined, *((10_000, 2) if quick else (400_000, 6)), seed)


ten_streams = Experiment(
    name="mesh-streams", title="A join of ten streams", paper=PAPER, section="6.2", figures=("mesh-10a", "mesh-10b"),
    varies="distribution of the attributes",
    fixed="10 streams joined on a common key, windows of 2,000 tuples, 3 parts of each stream, batches of 1,000",
    trials=_joined_trials,
    claims=(
        LITTLE_WORSE,
        Claim("On uniform data QM does better than MR+CBR.", lambda m: check.below(_ratio(m, QM, MR, "uniform"), 1.0)),
        *LESS_WORK,
    ),
    panels=ENGINE_PANELS,
    cast=(*CAST, KNOWS),
    notes=(
        "SP and `knows` are told the orders; QM and MR+CBR learn while windows fill and the join runs, and all of it is counted.",
        "Processor time of this machine, measured, of the whole engine.",
    ),
)  # fmt: skip


COST = 50.0
"""Microseconds of an operator, where time is told."""
PLAIN = "MR+CBR, no batching"
FEW = 50
"""Tuples that are routed together where nothing is batched: one by one, our routing would measure Python's calls alone."""


def over_time(tuples: int, seed: int) -> list[dict[str, Value]]:
    """Share of the time that a policy takes for itself, and what has come out when SP is so far."""
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
            # The stream does not end when our tuples do: beyond them output goes on at the mean rate.
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
        Claim("QM puts out more than SP at any time.", lambda m: check.above(_outputs(m, SP, (25, 50, 75, 100)), 1.0)),
        Claim("QM puts out more than MR+CBR, with and without batching.",
              lambda m: check.above(_outputs(m, MR, (100,)) | _outputs(m, PLAIN, (100,)), 1.0)),
    ),
    panels=(
        Panel("share", "Time a policy takes for itself", "policy", "share", "", "% of the time", kind="bars", series=""),
        Panel("output", "Tuples put out", "time", "output", "time, % of SP's whole run", "tuples"),
    ),
    cast=(*CAST, PLAIN),
    notes=("Processor time of this machine, measured; operators are not run, their time is calls times cost.",),
)  # fmt: skip


def training(size: int, seed: int) -> list[dict[str, Value]]:
    """One search over a given number of training tuples, with each strategy."""
    random = np.random.default_rng([seed, size])
    bits, columns = stream("poisson", 4000, random)
    values = np.stack(list(columns.values()), axis=1).astype(np.float32)
    passed = bits.astype(np.int8)
    drops = (passed == 0).astype(float)
    # Enough leaves are asked for that chance splits too: the size is what is varied here.
    tree, leaf = induce(
        values,
        [False] * ATTRIBUTES,
        np.ones(ATTRIBUTES, np.bool_),
        np.concatenate([drops, 1 - drops], axis=1),
        leaves=size,
    )
    pieces = [passed[leaf == t] for t in range(int(leaf.max()) + 1)]
    pipeline = Pipeline("s", tuple(Operator(f"f{i}") for i in range(OPERATORS)))
    rows: list[dict[str, Value]] = []
    for name, start in STARTS.items():
        for strategy, walk in (("II-QM", ii_qm), ("SA-QM", sa_qm)):
            model = Model(RouteSearch(pipeline, np.ones(OPERATORS)), tree, pieces, test=0.002, overhead=0.005)
            begin = start(model, random)
            found = walk(model, begin, random)
            rows.append({"training": len(pieces), "start": name, "strategy": strategy, "seed": seed, "cost": model.cost(found),
                         "started": model.cost(begin), "looked": model.evaluated})  # fmt: skip
    if len(pieces) <= 8:
        model = Model(RouteSearch(pipeline, np.ones(OPERATORS)), tree, pieces, test=0.002, overhead=0.005)
        rows.append(
            {
                "training": len(pieces),
                "strategy": "Opt-QM",
                "start": "none",
                "seed": seed,
                "cost": model.cost(opt_qm(model)),
            }
        )
    return rows


def _training_trials(quick: bool, seed: int) -> list[Trial]:
    return [
        Trial(f"{n} training tuples, seed {s}", training, {"size": n, "seed": s})
        for n in ((8, 16) if quick else (8, 16, 32, 64))
        for s in range(seed, seed + (3 if quick else 10))
    ]


def _grows(measured: Measurements) -> Finding:
    sizes = measured.distinct("training")
    rise = measured.difference(
        "looked", {"training": max(sizes)}, {"training": min(sizes)}, strategy="II-QM", start="route-driven"
    )
    return check.above({f"solutions priced, {max(sizes)} less {min(sizes)}": rise}, 0.0)


def _near_best(measured: Measurements) -> Finding:
    size = min(measured.distinct("training"))
    return check.below(
        {
            s: measured.ratio("cost", {"strategy": s, "start": "route-driven"}, {"strategy": "Opt-QM"}, training=size)
            for s in ("II-QM", "SA-QM")
        },
        1.05,
    )


def _starts(measured: Measurements) -> Finding:
    size = max(measured.distinct("training"))
    others = {
        f"{other}/route-driven": measured.ratio(
            "cost", {"start": other}, {"start": "route-driven"}, strategy="II-QM", training=size
        )
        for other in STARTS
        if other != "route-driven"
    }
    return check.above(others, 0.999)


searches = Experiment(
    name="mesh-12-13", title="The search: training set size and start solutions", paper=PAPER, section="6.2",
    figures=("mesh-12", "mesh-13"), varies="training tuples, start solution, strategy", fixed="Poisson data, 6 operators",
    trials=_training_trials,
    claims=(
        Claim("A larger training set makes the search dearer.", _grows),
        Claim("The route-driven start ends in meshes at least as good as the others (6 to 19 % better).", _starts),
        Claim("II-QM and SA-QM come within 5 % of Opt-QM.", _near_best, source="ours"),
    ),
    panels=(
        Panel("looked", "Solutions priced by II-QM, route-driven", "training", "looked", "training tuples", "solutions",
              series="strategy", where={"start": "route-driven"}),
        Panel("cost", "Cost of the mesh found by II-QM", "start", "cost", "start solution", "evaluations per tuple", kind="bars",
              series="training", where={"strategy": "II-QM"}),
    ),
)  # fmt: skip

EXPERIMENTS: tuple[Experiment, ...] = (executions, lookup_tables, ten_streams, rates, searches)
