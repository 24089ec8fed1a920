"""Figures 12 and 13: the search for a mesh, by size of the training set, start solution and strategy."""

from __future__ import annotations

import numpy as np

from thalweg.lab import check
from thalweg.lab.experiment import Claim, Experiment, Finding, Measurements, Panel, Trial, Value
from thalweg.lab.mesh.streams import ATTRIBUTES, OPERATORS, PAPER, stream
from thalweg.optimize.classes.meshsearch import STARTS, Model, ii_qm, opt_qm, sa_qm
from thalweg.optimize.classes.routeprices import Prices
from thalweg.optimize.classes.routesearch import RouteSearch
from thalweg.plan import Operator, Pipeline
from thalweg.profile.content.induce import induce


def training(size: int, seed: int) -> list[dict[str, Value]]:
    """One search over a given number of training tuples, with each strategy."""
    random = np.random.default_rng([seed, size])
    bits, columns = stream("poisson", 4000, random)
    values = np.stack(list(columns.values()), axis=1).astype(np.float32)
    passed = bits.astype(np.int8)
    drops = (passed == 0).astype(float)
    # Ask for enough leaves that chance splits count too, because this experiment varies the size.
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
            model = Model(
                RouteSearch(pipeline, Prices.of_filters(np.ones(OPERATORS))), tree, pieces, test=0.002, overhead=0.005
            )
            begin = start(model, random)
            found = walk(model, begin, random)
            rows.append({"training": len(pieces), "start": name, "strategy": strategy, "seed": seed, "cost": model.cost(found),
                         "started": model.cost(begin), "looked": model.evaluated})  # fmt: skip
    if len(pieces) <= 8:
        model = Model(
            RouteSearch(pipeline, Prices.of_filters(np.ones(OPERATORS))), tree, pieces, test=0.002, overhead=0.005
        )
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
    return check.above({f"solutions priced, {max(sizes)} minus {min(sizes)}": rise}, 0.0)


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
        Claim("A larger training set makes the search more expensive.", _grows),
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
