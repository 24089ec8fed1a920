"""The record of a run: raw rows, a small summary, the claims as a Markdown table. Plain values, no date, no path."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from thalweg.lab.estimate import Estimate
from thalweg.lab.experiment import Curve, Outcome, Panel, counted, curves

POINTS = 60
"""Points of a timeline kept in the summary."""


@dataclass(frozen=True)
class Settings:
    """The settings of a run."""

    name: str
    quick: bool
    seed: int

    @property
    def command(self) -> str:
        return f"thalweg lab run {self.name}{' --quick' if self.quick else ''} --seed {self.seed}"


def raw(settings: Settings, outcomes: Sequence[Outcome]) -> str:
    """Every row of every experiment."""
    record = {
        "command": settings.command,
        "experiments": {o.experiment.name: [dict(r) for r in o.measured.rows] for o in outcomes},
    }
    return json.dumps(record, ensure_ascii=False, indent=None, separators=(",", ":")) + "\n"


def summary(settings: Settings, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Claims and the points of all panels, rounded to five digits."""
    return {
        "command": settings.command,
        "quick": settings.quick,
        "seed": settings.seed,
        "claims": counted(outcomes),
        "experiments": [_experiment(o) for o in outcomes],
    }


def written(summary: dict[str, Any]) -> str:
    """A summary as JSON text, one line per experiment."""
    head = {k: v for k, v in summary.items() if k != "experiments"}
    lines = ",\n".join(json.dumps(e, ensure_ascii=False, separators=(",", ":")) for e in summary["experiments"])
    return json.dumps(head, ensure_ascii=False)[:-1] + ', "experiments": [\n' + lines + "\n]}\n"


def _experiment(outcome: Outcome) -> dict[str, Any]:
    e = outcome.experiment
    return {
        "name": e.name,
        "title": e.title,
        "section": e.section,
        "varies": e.varies,
        "fixed": e.fixed,
        "claims": [
            {"says": c.says, "source": c.source, "verdict": f.verdict, "numbers": f.numbers}
            for c, f in outcome.findings
        ],
        "panels": [
            {"name": p.name, "title": p.title, "x": p.xlabel, "y": p.ylabel,
             "curves": [_curve(p, c) for c in curves(p, outcome.measured)]}
            for p in e.panels
        ],
    }  # fmt: skip


def _curve(panel: Panel, curve: Curve) -> dict[str, Any]:
    every = max(1, -(-len(curve.x) // POINTS)) if panel.kind == "timeline" else 1
    points: list[Estimate] = list(curve.y[::every])
    out: dict[str, Any] = {
        "series": curve.series,
        "x": list(curve.x[::every]),
        "mean": [rounded(p.mean) for p in points],
    }
    if panel.kind != "timeline":
        out |= {"low": [rounded(p.low) for p in points], "high": [rounded(p.high) for p in points]}
    return out


def rounded(value: float) -> float | None:
    """Five significant digits; None if the value is not finite.

    >>> rounded(1.2345678), rounded(123456.7), rounded(float("inf"))
    (1.2346, 123460.0, None)
    """
    return float(f"{value:.5g}") if isfinite(value) else None


def claims_table(summary: dict[str, Any]) -> str:
    """The claims of a summary as a Markdown table."""
    lines = ["| experiment | claim | verdict | measured |", "|---|---|---|---|"]
    for e in summary["experiments"]:
        for c in e["claims"]:
            says = c["says"] if c["source"] == "paper" else f"(ours) {c['says']}"
            lines.append(f"| {e['name']} | {says} | **{c['verdict']}** | {c['numbers']} |")
    return "\n".join(lines) + "\n"
