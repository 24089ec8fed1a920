"""Measurements as values: sections of tables, notes and targets; shown in the terminal, kept as JSON and Markdown.

Terminal and files show the same values. Neither contains a path of the machine.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as Shown

from benchmarks.markdown import wrapped

PACKAGES = ("thalweg", "pyspark", "pyarrow", "numpy", "pandas", "duckdb")
MISSING = "–"


@dataclass(frozen=True)
class Column:
    key: str
    head: str
    spec: str = ""
    """Format of its numbers; text columns have none."""

    def show(self, row: dict[str, Any]) -> str:
        value = row.get(self.key)
        if value is None:
            return MISSING
        return format(value, self.spec) if self.spec and not isinstance(value, str) else str(value)


@dataclass(frozen=True)
class Table:
    title: str
    columns: Sequence[Column]
    rows: Sequence[dict[str, Any]]


@dataclass(frozen=True)
class Target:
    """A promise, and the measurement."""

    what: str
    limit: float
    measured: float
    at_most: bool = True

    @property
    def met(self) -> bool:
        return self.measured <= self.limit if self.at_most else self.measured >= self.limit


@dataclass
class Section:
    name: str
    title: str
    tables: list[Table] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    series: dict[str, Any] = field(default_factory=dict)
    """Lines for the plot, by name; not part of the record."""
    pictures: list[str] = field(default_factory=list)

    def record(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "title": self.title,
            "tables": [
                {"title": t.title, "columns": [asdict(c) for c in t.columns], "rows": list(t.rows)} for t in self.tables
            ],
            "notes": self.notes,
            "targets": [asdict(t) | {"met": t.met} for t in self.targets],
            "pictures": self.pictures,
        }


def circumstances(command: str, seconds: float, quick: bool = False) -> dict[str, Any]:
    """The machine and the command behind the numbers."""
    return {
        "command": command,
        "quick": quick,
        "seconds": round(seconds),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "versions": {p: version(p) for p in PACKAGES},
    }


def show(section: Section, console: Console) -> None:
    console.rule(f"[bold]{section.title}")
    for table in section.tables:
        shown = Shown(title=table.title, title_justify="left", header_style="bold")
        for column in table.columns:
            shown.add_column(column.head, justify="right" if column.spec else "left")
        for row in table.rows:
            shown.add_row(*(c.show(row) for c in table.columns))
        console.print(shown)
    for note in section.notes:
        console.print(f"  {note}", style="dim", markup=False, highlight=False)


def show_targets(sections: Sequence[Section], console: Console, about: dict[str, Any]) -> None:
    shown = Shown(title=_targets_title(about), title_justify="left", header_style="bold")
    for head in ("target", "limit", "measured", ""):
        shown.add_column(head, justify="right" if head in ("limit", "measured") else "left")
    for section in sections:
        for t in section.targets:
            shown.add_row(t.what, _limit(t), f"{t.measured:.3f}", "[green]met" if t.met else "[red]missed")
    console.print(shown)


def _targets_title(about: dict[str, Any]) -> str:
    return (
        "Targets (a quick run is too short for some, because it spends most of its time learning)"
        if about["quick"]
        else "Targets"
    )


def _limit(target: Target) -> str:
    return f"{'≤' if target.at_most else '≥'} {target.limit:g}"


def keep(sections: Sequence[Section], about: dict[str, Any], folder: Path) -> None:
    """Write results.json and results.md."""
    folder.mkdir(parents=True, exist_ok=True)
    record = {"about": about, "sections": [s.record() for s in sections]}
    (folder / "results.json").write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    (folder / "results.md").write_text(wrapped(_markdown(sections, about)))


def _markdown(sections: Sequence[Section], about: dict[str, Any]) -> list[str]:
    versions = ", ".join(f"{p} {v}" for p, v in about["versions"].items())
    lines = [
        "# Adaptive filters, measured",
        "",
        f"Made by `{about['command']}` in {about['seconds']} s on {about['cores']} cores (load average {about['load']} "
        f"at the end), Python {about['python']}, {versions}. Work and calls are exact. Seconds and rows/s are from "
        "this one run; on another machine only their ratios are meaningful.",
        "",
        f"## {_targets_title(about)}",
        "",
        "| target | limit | measured | |",
        "|---|---:|---:|---|",
    ]
    for section in sections:
        lines += [
            f"| {t.what} | {_limit(t)} | {t.measured:.3f} | {'met' if t.met else '**missed**'} |"
            for t in section.targets
        ]
    for section in sections:
        lines += ["", f"## {section.title}", ""]
        for table in section.tables:
            lines += [f"**{table.title}**", "", "| " + " | ".join(c.head for c in table.columns) + " |"]
            lines.append("|" + "|".join("---:" if c.spec else "---" for c in table.columns) + "|")
            lines += ["| " + " | ".join(c.show(row) for c in table.columns) + " |" for row in table.rows]
            lines.append("")
        lines += [f"![{section.title}]({picture})\n" for picture in section.pictures]
        lines += [f"- {note}" for note in section.notes]
    return lines
