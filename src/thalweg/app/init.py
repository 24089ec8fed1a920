"""`thalweg init`: writes a folder with an application that runs, as a starting point for your own."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from thalweg.app.values import AppError

NAMES = ("app.toml", "predicates.py", "sites.csv")


def init(folder: Path) -> list[Path]:
    """Write the example. Existing files are never touched."""
    there = [n for n in NAMES if (folder / n).exists()]
    if there:
        raise AppError(f"'{folder / there[0]}' already exists", hint="name an empty folder: thalweg init my-app")
    folder.mkdir(parents=True, exist_ok=True)
    source = files("thalweg.app.example")
    written = []
    for name in NAMES:
        (folder / name).write_text(source.joinpath(name).read_text(encoding="utf-8"), encoding="utf-8")
        written.append(folder / name)
    return written
