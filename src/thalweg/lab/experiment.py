"""An experiment: what a paper varied, how to repeat it, and what the paper claimed about the outcome.

Trials produce rows: the settings and the outcome, one row per seed and series. Panels draw rows; claims check rows.
Trials are independent and carry their own seeds, so the outcome does not depend on the order or the process in which
they run. `check.py` decides claims: a claim agrees only if the 95 % intervals say so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from thalweg.errors import ThalwegError
from thalweg.lab.estimate import Estimate, estimate

Value = float | int | str | Sequence[float]
Row = Mapping[str, Value]
Verdict = Literal["agrees", "does not", "can't say"]


@dataclass(frozen=True)
class Trial:
    """One piece of work, picklable: a function and its arguments. `alone`: it reads the wall clock."""

    label: str
    function: Callable[..., list[dict[str, Value]]]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    alone: bool = False

    def __call__(self) -> list[dict[str, Value]]:
        return self.function(**self.arguments)


@dataclass(frozen=True)
class Measurements:
    """All rows of an experiment. Selections keep the order of the rows; values of different series are paired by seed.

    >>> m = Measurements(({"policy": "a", "seed": 1, "work": 2.0}, {"policy": "b", "seed": 1, "work": 3.0}))
    >>> m.ratio("work", {"policy": "b"}, {"policy": "a"}).mean
    1.5
    """

    rows: tuple[Row, ...]

    def select(self, **where: Value) -> list[Row]:
        return [r for r in self.rows if all(k in r and r[k] == v for k, v in where.items())]

    def values(self, column: str, **where: Value) -> NDArray[np.float64]:
        """One column of the selected rows that have it."""
        found = [r[column] for r in self.select(**where) if column in r]
        if not found:
            raise ThalwegError(f"nothing measured for '{column}' where {where}", hint="see the rows in raw.json")
        return np.asarray(found, float)

    def distinct(self, column: str, **where: Value) -> list[Any]:
        """The values of a column in the order they first occur."""
        return list(dict.fromkeys(r[column] for r in self.select(**where) if column in r))

    def estimate(self, column: str, **where: Value) -> Estimate:
        return estimate(self.values(column, **where))

    def by_seed(self, column: str, **where: Value) -> dict[Any, float]:
        rows = [r for r in self.select(**where) if column in r]
        found = {r["seed"]: float(np.asarray(r[column], float)) for r in rows}
        if len(found) != len(rows) or not rows:
            raise ThalwegError(f"'{column}' where {where} is not one value for each seed ({len(rows)} rows)")
        return found

    def ratio(
        self, column: str, over: Mapping[str, Value], under: Mapping[str, Value], **where: Value
    ) -> Estimate:  # fmt: skip
        """Mean of the ratios of two series, paired by seed."""
        a, b = self.by_seed(column, **where, **over), self.by_seed(column, **where, **under)
        return estimate(a[seed] / b[seed] for seed in a if seed in b)

    def difference(
        self, column: str, over: Mapping[str, Value], under: Mapping[str, Value], **where: Value
    ) -> Estimate:  # fmt: skip
        """Mean of the differences of two series, paired by seed."""
        a, b = self.by_seed(column, **where, **over), self.by_seed(column, **where, **under)
        return estimate(a[seed] - b[seed] for seed in a if seed in b)


@dataclass(frozen=True)
class Finding:
    """The verdict of a check, with the numbers it used."""

    verdict: Verdict
    numbers: str


@dataclass(frozen=True)
class Claim:
    """What the paper says, in our words, and the check that decides whether the measurements agree."""

    says: str
    check: Callable[[Measurements], Finding]
    source: Literal["paper", "ours"] = "paper"
    """`ours`: not from the paper, but about what Thalweg adds."""


@dataclass(frozen=True)
class Panel:
    """One picture: for each value of `series` the mean of `y` (with its interval over seeds) against `x`.

    `line`: x is a number. `bars`: x is a name. `stack`: x is a name, and the columns `parts` are stacked in its bar.
    `timeline`: `y` holds a list, a value every `step` tuples, and the mean over seeds is drawn.
    """

    name: str
    title: str
    x: str
    y: str
    xlabel: str
    ylabel: str
    kind: Literal["line", "bars", "stack", "timeline"] = "line"
    series: str = "policy"
    """The column that distinguishes the series; "" if there is only one."""
    only: tuple[str, ...] = ()
    """The series to show; () for all."""
    where: Mapping[str, Value] = field(default_factory=dict)
    parts: Mapping[str, str] = field(default_factory=dict)
    logx: bool = False
    step: int = 1
    mark: float | None = None
    """The position of an event on the x axis."""
    note: str = ""


@dataclass(frozen=True)
class Curve:
    """The points of one series in a panel."""

    series: str
    x: tuple[Any, ...]
    y: tuple[Estimate, ...]


def curves(panel: Panel, measured: Measurements) -> list[Curve]:
    """The points of a panel; pictures, tables and JSON all come from here, so they cannot disagree."""
    if panel.kind == "stack":
        bars = measured.distinct(panel.x, **panel.where)
        return [
            Curve(label, tuple(bars), tuple(measured.estimate(c, **panel.where, **{panel.x: bar}) for bar in bars))
            for c, label in panel.parts.items()
        ]
    out = []
    rows = tuple(r for r in measured.select(**panel.where) if panel.y in r)
    for series in Measurements(rows).distinct(panel.series) if panel.series else [panel.ylabel]:
        chosen = Measurements(tuple(r for r in rows if not panel.series or r.get(panel.series) == series))
        if panel.only and series not in panel.only:
            continue
        if panel.kind == "timeline":
            lines = np.asarray([r[panel.y] for r in chosen.rows], float)
            at = tuple(int(i) * panel.step for i in range(lines.shape[1]))
            out.append(Curve(str(series), at, tuple(estimate(lines[:, i]) for i in range(lines.shape[1]))))
            continue
        xs = tuple(chosen.distinct(panel.x))
        out.append(Curve(str(series), xs, tuple(chosen.estimate(panel.y, **{panel.x: x}) for x in xs)))
    return out


@dataclass(frozen=True)
class Experiment:
    """A figure or table of a paper, and how to repeat it."""

    name: str
    title: str
    paper: str
    section: str
    figures: tuple[str, ...]
    varies: str
    fixed: str
    trials: Callable[[bool, int], list[Trial]]
    """(quick, seed) -> the trials."""
    claims: tuple[Claim, ...]
    panels: tuple[Panel, ...] = ()
    cast: tuple[str, ...] = ()
    """Series in a fixed order, so that each has the same colour in all figures."""
    notes: tuple[str, ...] = ()
    """Choices made where the paper is silent."""

    def run(self, quick: bool = False, seed: int = 7, step: Callable[[str], None] = lambda label: None) -> Measurements:
        """Run all trials in this process, one after the other."""
        rows: list[Row] = []
        for trial in self.trials(quick, seed):
            rows += trial()
            step(trial.label)
        return Measurements(tuple(rows))


@dataclass(frozen=True)
class Outcome:
    """An experiment that has run: its measurements, and the finding for each claim."""

    experiment: Experiment
    measured: Measurements
    findings: tuple[tuple[Claim, Finding], ...]
    seconds: float = 0.0


def judge(experiment: Experiment, measured: Measurements, seconds: float = 0.0) -> Outcome:
    return Outcome(experiment, measured, tuple((c, c.check(measured)) for c in experiment.claims), seconds)


def counted(outcomes: Iterable[Outcome]) -> dict[Verdict, int]:
    """The number of claims for each verdict."""
    tally: dict[Verdict, int] = {"agrees": 0, "does not": 0, "can't say": 0}
    for outcome in outcomes:
        for _, finding in outcome.findings:
            tally[finding.verdict] += 1
    return tally
