"""The operator contract: ours keep it, a guest of somebody else's takes part, and broken ones are told why."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from thalweg.contract.operator import RowSet, ends_of
from thalweg.contract.visits import ROWS_OUT
from thalweg.execute.fabric import Fabric
from thalweg.execute.routetable import Layer
from thalweg.execute.trip import Trip
from thalweg.testing import check_operator


class Sieve:
    """An operator as somebody else might write it: before rows join, those that have no partner at their first stem go.
    It reads nothing but the stems' own counts, so a route's results stay what they are."""

    routes = None

    def __init__(self, fabric: Fabric, layer: Layer) -> None:
        self.stems, self.layer = fabric.stems, layer

    def visit(self, trip: Trip, rows: RowSet) -> Iterator[RowSet]:
        assert self.stems is not None
        keep = np.ones(len(rows), np.bool_)
        for route, segment in enumerate(self.layer.segments):
            mine = rows.of(route)
            if segment is not None and len(mine):
                step, (start, end) = segment.leg.steps[0], rows.ends[route : route + 2]  # type: ignore[index]
                counted = self.stems.stem(step.target).count(
                    np.ascontiguousarray(mine), step.pattern, step.pairs, trip.arrival.newest, trip.arrival.expiry,
                    1 << 30, step.member,
                )  # fmt: skip
                keep[start:end] = counted.matches != 0
        Sieve.dropped += int((~keep).sum())
        yield rows.where(keep)

    dropped = 0


class Broken:
    """Does one thing wrong."""

    routes = None

    def __init__(self, wrong: Callable[[Trip, RowSet], RowSet]) -> None:
        self.wrong = wrong

    def visit(self, trip: Trip, rows: RowSet) -> Iterator[RowSet]:
        yield self.wrong(trip, rows)


def test_the_fabrics_own_operators_keep_the_contract_and_all_kinds_take_part() -> None:
    visits = check_operator()
    assert set(visits) == {"Filtering", "Joining", "Looking", "Telling"}
    assert min(visits.values()) >= 2


def test_an_operator_of_somebody_else_takes_part_without_changing_results() -> None:
    Sieve.dropped = 0
    visits = check_operator(lambda fabric, layer, depth: Sieve(fabric, layer))
    assert visits["Sieve"] > 100
    assert Sieve.dropped > 100


def lose(trip: Trip, rows: RowSet) -> RowSet:
    return rows.where(np.arange(len(rows)) > 0)


def mix(trip: Trip, rows: RowSet) -> RowSet:
    return RowSet(rows.lines, ends_of(np.array([len(rows)])))


def cheat(trip: Trip, rows: RowSet) -> RowSet:
    trip.counts[:, -1, ROWS_OUT] += 1
    return rows


def refund(trip: Trip, rows: RowSet) -> RowSet:
    trip.seconds[0] -= 1.0
    return rows


@pytest.mark.parametrize(
    ("wrong", "why"),
    [(lose, "results change"), (mix, "number of routes"), (cheat, "no price"), (refund, "seconds off the bill")],
)
def test_what_is_broken_is_told(wrong: Callable[[Trip, RowSet], RowSet], why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        check_operator(lambda fabric, layer, depth: Broken(wrong))


def test_row_sets_split_by_route_and_keep_their_bounds() -> None:
    rows = RowSet(np.arange(6).reshape(-1, 1), np.array([0, 1, 4, 6]))
    mine, others = rows.split(np.array([True, False, True]))
    assert (mine.lines.ravel().tolist(), mine.ends.tolist()) == ([0, 4, 5], [0, 1, 1, 3])  # type: ignore[union-attr]
    assert (others.lines.ravel().tolist(), others.ends.tolist()) == ([1, 2, 3], [0, 0, 3, 3])  # type: ignore[union-attr]
    left = rows.where(np.array([False, True, False, True, False, True]))
    assert (left.lines.ravel().tolist(), left.ends.tolist()) == ([1, 3, 5], [0, 0, 2, 3])  # type: ignore[union-attr]
