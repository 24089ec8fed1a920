"""Thesis chapter 5, joins of windowed streams with adaptive caches: figures 5.11 to 5.23 and table 5.2, repeated."""

from __future__ import annotations

from thalweg.lab.chapter5 import burst, manyway, memory, onecache, spectrum
from thalweg.lab.experiment import Experiment

EXPERIMENTS: tuple[Experiment, ...] = (
    onecache.hits,
    onecache.selectivity,
    onecache.updates,
    manyway.experiment,
    onecache.costs,
    spectrum.experiment,
    burst.experiment,
    memory.experiment,
)
