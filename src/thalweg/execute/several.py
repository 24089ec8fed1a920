"""Rusters of several routes, taken apart into rusters of one, and their journeys put together again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from thalweg.contract.visits import BUCKETS, COUNTED, HASHES, ROWS_IN, ROWS_OUT, SURVIVORS, WORK, Journey, Visit
from thalweg.plan import Ruster


def apart(rusters: Sequence[Ruster]) -> Iterator[tuple[Ruster, list[Ruster]]]:
    """Each ruster with the rusters of one route that it consists of."""
    for ruster in rusters:
        if ruster.ids is None:
            yield ruster, [ruster]
            continue
        parts = []
        for k, (route, label) in enumerate(zip(ruster.routes, ruster.labels, strict=True)):
            at = np.flatnonzero(ruster.ids == k)
            rows = at if ruster.rows is None else ruster.rows[at]
            if len(rows):
                parts.append(replace(ruster, rows=rows, route=route, label=label, ids=None))
        yield ruster, parts


def together(ruster: Ruster, journeys: Sequence[Journey], operators: int) -> list[Journey]:
    """The journeys of the parts of a ruster as one."""
    if ruster.ids is None or not journeys:
        return list(journeys)
    counts = np.zeros((len(ruster.routes), operators, COUNTED), np.int64)
    begun = np.zeros(len(ruster.routes), np.int64)
    dropped = np.full(len(ruster.ids), -1, np.int16) if ruster.trace else None
    total: dict[int, Visit] = {}
    present = [k for k in range(len(ruster.routes)) if (ruster.ids == k).any()]
    for k, journey in zip(present, journeys, strict=True):
        begun[k] = journey.rows
        if dropped is not None and journey.dropped is not None:
            dropped[ruster.ids == k] = journey.dropped
        for v in journey.visits:
            line = counts[k, v.operator]
            line[ROWS_IN], line[ROWS_OUT], line[SURVIVORS], line[WORK] = v.rows_in, v.rows_out, v.survivors or 0, v.work
            line[BUCKETS], line[HASHES] = v.buckets, v.hashes
            t = total.get(v.operator)
            if t is not None:
                survivors = None if v.survivors is None or t.survivors is None else t.survivors + v.survivors
                v = Visit(
                    v.operator, t.rows_in + v.rows_in, t.rows_out + v.rows_out, t.seconds + v.seconds, 0, 0.0,
                    survivors, t.work + v.work, t.buckets + v.buckets, t.hashes + v.hashes,
                )  # fmt: skip
            total[v.operator] = v
    visits = tuple(total[op] for op in ruster.route if op in total)
    recalled = any(j.recalled for j in journeys)
    return [
        Journey(
            ruster, int(begun.sum()), visits, recalled=recalled,
            dropped=None if dropped is None or recalled else dropped, counts=counts, begun=begun,
        )
    ]  # fmt: skip
