"""Whether operators keep their contract (thalweg.contract.operator): those of the fabric, and a guest among them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from thalweg import optimize
from thalweg.contract.operator import Operator, RowSet, Writing
from thalweg.contract.visits import ROWS_IN, ROWS_OUT, WORK
from thalweg.execute.fabric import Fabric, Guest
from thalweg.execute.outlet import Outlet
from thalweg.execute.routetable import Layer, Maker, Rounds
from thalweg.execute.trip import Trip
from thalweg.testing.joincourse import JoinCourse, chained, lookups, meeting


def check_operator(guest: Guest | None = None, *, seed: int = 5) -> dict[str, int]:
    """Raise AssertionError with the reason if an operator breaks its contract, or if results change with the guest.

    Joins run under policies that profile and that let rows of several routes travel together, with caches and without. The
    guest is asked for an operator for every layer of stems; it may watch rows, or drop those that could give no result.
    Returns how often each operator was visited, by the name of its class.

    >>> sorted(check_operator())
    ['Filtering', 'Joining', 'Looking', 'Telling']
    """
    visits = dict[str, int]()
    guests = () if guest is None else (guest,)
    for course in (meeting(rows=40, rounds=4), chained(rows=24, rounds=4), lookups(rows=120, rounds=4)):
        wanted = _rows(course, "written", "off", seed)
        for policy, caches in (("chaos", "off"), ("chaos", "chaos"), ("sbr", "off"), ("agreedy", "off")):
            found = _rows(course, policy, caches, seed, guests, visits)
            assert found == wanted, f"results change under {policy} with caches {caches}"
    return visits


def _rows(
    course: JoinCourse, policy: str, caches: str, seed: int, guests: Sequence[Guest] = (),
    visits: dict[str, int] | None = None,
) -> list[object]:  # fmt: skip
    run = course.run(partial(optimize.make, policy), seed, caches)
    for fabric in run.engine.flow.fabrics:
        fabric.guests = guests
        if visits is not None:
            fabric.tables.maker = _CheckedMaker(fabric, visits)
    return [run.feed(step) for step in range(run.length)]


class _CheckedMaker(Maker):
    """The fabric's operators, each with somebody who looks over its shoulder."""

    def __init__(self, fabric: Fabric, visits: dict[str, int]) -> None:
        self.fabric, self.visits = fabric, visits

    def entrance(self, rounds: Rounds) -> tuple[Operator[Trip], ...]:
        return tuple(_checked(op, self.visits) for op in self.fabric.entrance(rounds))

    def behind(self, layer: Layer, depth: int) -> Iterator[Operator[Trip]]:
        for operator in self.fabric.behind(layer, depth):
            yield _checked(operator, self.visits)


class _Checked:
    """An operator that is looked at before and after each part it gives."""

    def __init__(self, operator: Operator[Trip], visits: dict[str, int]) -> None:
        self.name, self.visits = type(operator).__name__, visits
        assert isinstance(operator, Operator), f"{self.name} lacks routes or visit"
        self.operator, self.routes = operator, operator.routes

    def visit(self, trip: Trip, rows: RowSet) -> Iterator[RowSet]:
        self.visits[self.name] = self.visits.get(self.name, 0) + 1
        assert len(rows), f"{self.name} was sent no rows"
        before = _price(trip)
        for part in self.operator.visit(trip, rows):
            self._sound(trip, rows, part)
            yield part
        self._charged(before, trip)

    def _sound(self, trip: Trip, rows: RowSet, part: RowSet) -> None:
        assert isinstance(part, RowSet), f"{self.name} gives {type(part).__name__}, not a row set"
        if rows.ends is None:
            assert part.ends is None, f"{self.name} groups rows that have just arrived"
            assert part.ids is None or len(part.ids) == len(part), f"{self.name} loses the routes of its rows"
            return
        assert part.ends is not None, f"{self.name} does not say which rows take which route"
        assert len(part.ends) == len(trip.table.routes) + 1, f"{self.name} changes the number of routes"
        assert part.ends[0] == 0, f"{self.name}: the first route does not begin at 0"
        assert part.ends[-1] == len(part.lines), f"{self.name}: the last route does not end with the rows"
        assert (part.sizes >= 0).all(), f"{self.name}: a route ends before it begins"
        strange = (part.sizes > 0) & (rows.sizes == 0)
        assert not strange.any(), f"{self.name} gives rows to a route that sent none"
        assert self.routes is None or not part.sizes[~self.routes].any(), f"{self.name} serves a route it does not name"

    def _charged(self, before: tuple[NDArray[np.int64], list[float]], trip: Trip) -> None:
        counts, seconds = before
        more = trip.counts - counts
        assert (more[..., [ROWS_IN, ROWS_OUT, WORK]] >= 0).all(), f"{self.name} takes something off the bill"
        later = [b - a for a, b in zip(seconds, trip.seconds, strict=True)]
        assert all(s >= 0 and math.isfinite(s) for s in later), f"{self.name} takes seconds off the bill"
        free = more[..., ROWS_OUT].any(axis=0) & ~more[..., WORK].any(axis=0)
        assert not free.any(), f"{self.name} lets rows through and says no price for them"


class _CheckedWriter(_Checked):
    """The same for an operator that can write results itself."""

    operator: Operator[Trip] | Writing[Trip, Outlet]  # type: ignore[assignment]

    def writes(self, trip: Trip, outlet: Outlet) -> bool:
        assert isinstance(self.operator, Writing)
        return self.operator.writes(trip, outlet)

    def write(self, trip: Trip, rows: RowSet, outlet: Outlet) -> None:
        assert isinstance(self.operator, Writing)
        self.visits[self.name] = self.visits.get(self.name, 0) + 1
        before = _price(trip)
        self.operator.write(trip, rows, outlet)
        self._charged(before, trip)


def _checked(operator: Operator[Trip], visits: dict[str, int]) -> Operator[Trip]:
    return (_CheckedWriter if isinstance(operator, Writing) else _Checked)(operator, visits)


def _price(trip: Trip) -> tuple[NDArray[np.int64], list[float]]:
    return trip.counts.copy(), list(trip.seconds)
