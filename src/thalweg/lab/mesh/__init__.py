"""Query mesh repeated (Nehme et al. 2012): figures 10 to 13 on filters, table look-ups and a join of ten streams."""

from __future__ import annotations

from thalweg.lab.experiment import Experiment
from thalweg.lab.mesh import execution, joins, searches

EXPERIMENTS: tuple[Experiment, ...] = (
    execution.executions,
    joins.lookup_tables,
    joins.ten_streams,
    execution.rates,
    searches.searches,
)
