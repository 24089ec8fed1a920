"""The list of experiments: one group per chapter or paper. A figure's number also names its experiment."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from thalweg.errors import DefinitionError, did_you_mean
from thalweg.lab.experiment import Experiment

GROUPS = {
    "chapter4": "thalweg.lab.chapter4",
    "chapter5": "thalweg.lab.chapter5",
    "amri": "thalweg.lab.amri",
    "cbr": "thalweg.lab.cbr",
    "mesh": "thalweg.lab.mesh",
}
"""Group name and the package that holds its EXPERIMENTS."""


def experiments(group: str) -> Sequence[Experiment]:
    found: Sequence[Experiment] = import_module(GROUPS[group]).EXPERIMENTS
    return found


def find(name: str) -> list[Experiment]:
    """The experiments of a group, or the one with this name or figure.

    >>> [e.name for e in find("4.20")], [e.name for e in find("table4.2")]
    (['4.19-4.21'], ['table-4.2'])
    """
    if name in GROUPS:
        return list(experiments(name))
    wanted = name.lower().removeprefix("fig").removeprefix("ure").strip(". ")
    everything = [e for group in GROUPS for e in experiments(group)]
    for experiment in everything:
        if wanted == experiment.name or wanted in experiment.figures:
            return [experiment]
    known = [*GROUPS, *(e.name for e in everything), *(f for e in everything for f in e.figures)]
    raise DefinitionError(f"no experiment '{name}'", hint=did_you_mean(name, list(dict.fromkeys(known))))
