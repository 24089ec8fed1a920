"""Thesis chapter 4, adaptive ordering of pipelined filters: every figure and table of its section 4.7, repeated."""

from __future__ import annotations

from thalweg.lab.chapter4 import (
    adaptivity,
    convergence,
    groups,
    overhead,
    periods,
    timeshares,
    unequalcosts,
    worstcases,
)
from thalweg.lab.experiment import Experiment

EXPERIMENTS: tuple[Experiment, ...] = (
    groups.experiment,
    convergence.number,
    convergence.selectivity,
    convergence.correlation,
    timeshares.experiment,
    overhead.experiment,
    unequalcosts.experiment,
    adaptivity.experiment,
    periods.rate_of_change,
    periods.at_two_periods,
    worstcases.experiment,
)
