"""AMRI, the adaptive multi-route index (Works et al. 2013): figures 8, 9 and 10 of its section 9, repeated."""

from __future__ import annotations

from thalweg.lab.amri import alternatives, paths, rivals
from thalweg.lab.experiment import Experiment

EXPERIMENTS: tuple[Experiment, ...] = (
    alternatives.assessments,
    alternatives.schedules,
    alternatives.migrations,
    rivals.hash_indexes,
    rivals.synthetic,
    rivals.sensors,
    paths.experiment,
)
