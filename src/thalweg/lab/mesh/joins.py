"""Figure 10 in the join engine: six tables of 10,000 rows looked up, and a join of ten streams.

Work is counted, and the engine's processor time is measured. All contenders must find the same results.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from thalweg.lab import check, lookups, tenstreams
from thalweg.lab.estimate import Estimate
from thalweg.lab.experiment import Claim, Experiment, Measurements, Panel, Trial, Value
from thalweg.lab.mesh.streams import CAST, MR, OPERATORS, PAPER, QM, SP, attributes, on_both_kinds, stream, work_ratio
from thalweg.lab.simulate import best_order
from thalweg.lab.star import Star
from thalweg.lab.tenstreams import Chooser


def looked_up(kind: str, tuples: int, seed: int) -> list[dict[str, Value]]:
    """The same streams with tables as operators. SP is an MJoin written in the best single order."""
    random = np.random.default_rng([seed, 12])
    bits, columns = stream(kind, tuples, random)
    drawn = Star(bits, np.zeros(tuples, np.int64), {n: v.astype(np.int64) for n, v in columns.items()})
    tuples_in, tables = lookups.tables(drawn, random)
    best = {f"d{i + 1}": tables[f"d{i + 1}"] for i in best_order(bits, [1.0] * OPERATORS)[0]}
    rows: list[dict[str, Value]] = []
    for name, policy, asked in ((SP, "written", best), (MR, "cbr", tables), (QM, "mesh", tables)):
        work, took, found = lookups.warmed(policy, tuples_in, asked, seed)
        assert found == bits.all(axis=1).sum(), f"{name} found {found} rows"
        rows.append(
            {"policy": name, "data": kind, "seed": seed, "work": work / tuples, "microseconds": 1e6 * took / tuples}
        )
    return rows


def _looked_up_trials(quick: bool, seed: int) -> list[Trial]:
    return on_both_kinds(looked_up, *((30_000, 2) if quick else (100_000, 10)), seed)


def _times(measured: Measurements, under: str) -> dict[str, Estimate]:
    return {f"QM/{under}": measured.ratio("microseconds", {"policy": QM}, {"policy": under}, data="poisson")}


LITTLE_WORSE = Claim(
    "On uniform data QM is only slightly worse than SP (2.2 %): here within 5 % of its work, sampling included.",
    lambda m: check.below(work_ratio(m, QM, SP, "uniform"), 1.05),
)
LESS_WORK = (
    Claim("On Poisson data QM does less work than SP.", lambda m: check.below(work_ratio(m, QM, SP, "poisson"), 1.0)),
    Claim("On Poisson data QM does less work than MR+CBR.", lambda m: check.below(work_ratio(m, QM, MR, "poisson"), 1.0)),
    Claim("It takes less execution time than SP and MR+CBR, too.",
          lambda m: check.below(_times(m, SP) | _times(m, MR), 1.0)),
)  # fmt: skip
ENGINE_PANELS = (
    Panel("work", "Buckets and candidates per tuple", "data", "work", "", "per tuple", kind="bars"),
    Panel("time", "Processor time per tuple", "data", "microseconds", "", "µs", kind="bars"),
)
"""What it takes the join engine to join a tuple."""

lookup_tables = Experiment(
    name="mesh-tables", title="The same with tables looked up by the join engine", paper=PAPER, section="6.2", figures=(),
    varies="distribution of the attributes", fixed="6 tables of 10,000 rows, 6 attributes, batches of 1,000",
    trials=_looked_up_trials,
    claims=(LITTLE_WORSE, *LESS_WORK),
    panels=ENGINE_PANELS,
    cast=CAST,
    notes=("Measured processor time of the whole engine on this machine.",),
)  # fmt: skip


KNOWS = "knows"


def joined(kind: str, tuples: int, seed: int) -> list[dict[str, Value]]:
    """The join of ten streams; all contenders must find the same number of results."""
    streams = tenstreams.draw(partial(attributes, kind), tuples, np.random.default_rng([seed, 13]))
    tenstreams.joined("written", streams, seed, 2 * tenstreams.BATCH)  # load the kernels before the clock starts
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
    return on_both_kinds(joined, *((10_000, 2) if quick else (400_000, 6)), seed)


ten_streams = Experiment(
    name="mesh-streams", title="A join of ten streams", paper=PAPER, section="6.2", figures=("mesh-10a", "mesh-10b"),
    varies="distribution of the attributes",
    fixed="10 streams joined on a common key, windows of 2,000 tuples, 3 parts of each stream, batches of 1,000",
    trials=_joined_trials,
    claims=(
        LITTLE_WORSE,
        Claim("On uniform data QM does better than MR+CBR.", lambda m: check.below(work_ratio(m, QM, MR, "uniform"), 1.0)),
        *LESS_WORK,
    ),
    panels=ENGINE_PANELS,
    cast=(*CAST, KNOWS),
    notes=(
        "SP and `knows` are told the orders. QM and MR+CBR learn while windows fill and the join runs; all of that is counted.",
        "Measured processor time of the whole engine on this machine.",
    ),
)  # fmt: skip
