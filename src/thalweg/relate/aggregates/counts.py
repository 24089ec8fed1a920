"""count(*) and count(x, ...): rows, or rows in which no argument is NULL."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from thalweg.relate.aggregates.contract import InFields, Ints, Touched
from thalweg.relate.kernels.sums import add_up
from thalweg.relate.rows.dictionary import Dictionary
from thalweg.state.keys import plain, validity


class Count(InFields):
    def __init__(self, groups: Dictionary, field: str) -> None:
        self._groups, self._field = groups, field
        groups.add_field(field, width=1)

    def step(self, touched: Touched, arguments: Sequence[pa.Array]) -> pa.Array:
        values = np.ones((len(touched.entry), 1), np.int64)
        for argument in arguments:
            valid = validity(plain(argument))
            if valid is not None:
                values[:, 0] &= valid
        return pa.array(running(self._groups, self._field, touched, values)[:, 0])


def running(groups: Dictionary, field: str, touched: Touched, values: Ints) -> Ints:
    """Versions of sums that a field keeps, after the step's events are taken in."""
    state = groups.fields[field]
    versions: Ints = add_up(state[touched.groups], touched.old, touched.entry, touched.sign, values)
    state[touched.groups] = versions[touched.last]
    return versions
