"""Outcomes of rows as arrays: by route and operator, how many came, left and survived.

Journeys with the same routes are summed, so a policy that hears about many batches at once learns from one array. At a
filter every row that leaves survives; behind a stem several rows may come from one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thalweg.contract.visits import ROWS_IN, ROWS_OUT, SURVIVORS, Journey, Visits
from thalweg.plan import Ruster

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Met:
    """Rows of each route of a ruster, and for each route and operator the rows that came, left and survived."""

    ruster: Ruster
    begun: Floats
    came: Floats
    left: Floats
    survived: Floats


def met(visits: Visits, stems: NDArray[np.bool_]) -> list[Met]:
    """Sum all journeys of equal purpose and routes; `stems` says which operators join."""
    groups: list[list[Journey]] = []
    for journey in visits.journeys:
        mine = journey.ruster
        for group in groups:
            ruster = group[0].ruster
            if ruster.purpose == mine.purpose and (ruster.routes is mine.routes or ruster.routes == mine.routes):
                group.append(journey)
                break
        else:
            groups.append([journey])
    return [_sum(group, stems) for group in groups]


def _sum(journeys: list[Journey], stems: NDArray[np.bool_]) -> Met:
    ruster = journeys[0].ruster
    begun = np.zeros(len(ruster.routes))
    came, left, survived = np.zeros((3, len(ruster.routes), len(stems)))
    for journey in journeys:
        if journey.counts is not None and journey.begun is not None:
            begun += journey.begun
            came += journey.counts[:, :, ROWS_IN]
            left += journey.counts[:, :, ROWS_OUT]
            survived += np.where(stems, journey.counts[:, :, SURVIVORS], journey.counts[:, :, ROWS_OUT])
            continue
        begun += journey.rows
        for v in journey.visits:
            came[0, v.operator] += v.rows_in
            left[0, v.operator] += v.rows_out
            survived[0, v.operator] += v.rows_out if v.survivors is None else v.survivors
    return Met(ruster, begun, came, left, survived)
