"""Routes prepared to travel together: which filters come when, and which stems join in one call.

A route is filters, then legs of stems with filters between them. A leg ends at a filter or where a predicate between
inputs becomes due; for profiled rows it is one stem. Rows of several routes pass through these layer by layer. Each
route is checked against its pipeline once, at first use: on a disallowed route, rows could leave without meeting every
operator.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from thalweg.contract.operator import Operator, Writing
from thalweg.errors import DefinitionError
from thalweg.execute.shape import Leg, Shape, Step
from thalweg.plan import Pipeline, Route, Ruster
from thalweg.plan.layout import Pattern
from thalweg.plan.pipeline import MOST_KNOWN
from thalweg.state.views import StemView

if TYPE_CHECKING:
    from thalweg.execute.operators.cache import Cache, Caches, Shadow
    from thalweg.execute.outlet import Outlet
    from thalweg.execute.trip import Trip

Ints = NDArray[np.int64]
_NONE = np.empty((0, 2), np.int64)
Kind = Literal["", "single", "two phases"]
"""How rows travel: as they go best, one stem at a time to be profiled, or probed before they are joined."""


@dataclass(frozen=True, eq=False)
class Rounds:
    """Filters that rows meet in sequence: `operators[route, round]`, -1 if a route has no more."""

    operators: Ints
    common: tuple[int, ...]
    """The operator of each round if all routes agree, else -1."""

    @classmethod
    def of(cls, orders: Sequence[Sequence[int]]) -> Rounds:
        longest = max(map(len, orders), default=0)
        operators = np.full((len(orders), longest), -1, np.int64)
        for line, order in zip(operators, orders, strict=True):
            line[: len(order)] = order
        same = (operators == operators[:1]).all(axis=0)
        return cls(operators, tuple(np.where(same, operators[0], -1).tolist()) if longest else ())


@dataclass(frozen=True, eq=False)
class Segment:
    """A leg of one route, and the filters that come behind it."""

    place: int
    """Place of its first stem on the route."""
    bound: frozenset[int]
    """The inputs bound before it."""
    operators: tuple[int, ...]
    leg: Leg
    filters: tuple[int, ...]
    cache: Cache | None = None
    """What replaces its stems."""
    fill: tuple[Layer, ...] = ()
    """The stems for a key that the cache misses."""
    plain: tuple[Layer, ...] = ()
    """The stems for rows that it can't answer."""
    taps: tuple[Cache, ...] = ()
    """The caches that hear what comes out of it."""
    shadows: tuple[Shadow, ...] = ()
    """Caches that are only watched, to which its rows would come first."""
    probes: tuple[Layer, ...] = ()
    """Drop probing before its rows join: for each stem from here on, the path to it."""
    held: tuple[int, ...] = ()
    """For each of its stems, the column that drop probing left behind for it; -1: none. Empty: none for any."""
    carrier: int = 0
    """The column of a partial result that says which line drop probing left behind for it."""


@dataclass(eq=False)
class Layer:
    """The legs that the rows of all routes take next, as tables for one call of the kernel."""

    segments: tuple[Segment | None, ...]
    """By route; None if a route has already ended."""
    firsts: Ints = field(init=False)
    """Bounds of the steps of each route."""
    routes: Ints = field(init=False)
    """The route of each step."""
    operators: Ints = field(init=False)
    """The operator of each step."""
    lines: Ints = field(init=False)
    """The columns of each step's line that never change."""
    views: list[tuple[int, int, Pattern]] = field(init=False)
    """Requested inputs, their places among the members of their stems, and access patterns."""
    view: Ints = field(init=False)
    """The request of each step."""
    ready: tuple[list[StemView], Ints, Ints, int] | None = None
    """The tables as they were when last used: views, lines, runs, and the most runs of one view."""

    def __post_init__(self) -> None:
        self.cached = [(r, s) for r, s in enumerate(self.segments) if s is not None and s.cache is not None]
        """Routes whose stems a cache replaces."""
        self.shadows = [(r, s.shadows) for r, s in enumerate(self.segments) if s is not None and s.shadows]
        self.taps = [(r, s.taps) for r, s in enumerate(self.segments) if s is not None and s.taps]
        self.probed = next((s for s in self.segments if s is not None and s.probes), None)
        """What is drop-probed before it joins: such rows take one route."""
        legs = [(r, s) for r, s in enumerate(self.segments) if s is not None and s.cache is None]
        steps = [(r, op, step) for r, s in legs for op, step in zip(s.operators, s.leg.steps, strict=True)]
        self.routes = np.array([r for r, _, _ in steps], np.int64)
        self.operators = np.array([op for _, op, _ in steps], np.int64)
        lengths = [0 if s is None or s.cache is not None else len(s.operators) for s in self.segments]
        self.firsts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        asked = [(step.target, step.member, step.pattern) for _, _, step in steps]
        self.views = list(dict.fromkeys(asked))
        number = {view: k for k, view in enumerate(self.views)}
        self.view = np.array([number[view] for view in asked], np.int64)
        self.pairs = np.concatenate([s.leg.pairs for _, s in legs]) if legs else _NONE
        self.adds = np.concatenate([s.leg.adds for _, s in legs]) if legs else _NONE
        ends, pair, add = [], 0, 0
        for _, s in legs:
            shift = np.array([pair, pair, add, add], np.int64)
            held = s.held or (-1,) * len(s.leg.steps)
            ends += [
                (*(np.array(e) + shift), step.number, column, s.carrier)
                for e, step, column in zip(s.leg.ends, s.leg.steps, held, strict=True)
            ]
            pair, add = pair + len(s.leg.pairs), add + len(s.leg.adds)
        self.lines = np.array(ends, np.int64)
        self.longest = max(lengths)
        self.met = list(dict.fromkeys(op for _, op, _ in steps))
        """The distinct operators met."""
        self.going = np.array([r for r, _ in legs], np.int64)
        """The routes that have not ended, and the last step of each."""
        self.lasts = self.firsts[self.going + 1] - 1
        self.rounds = Rounds.of([() if s is None else s.filters for s in self.segments])

    def served(self, routes: Ints) -> NDArray[np.bool_] | None:
        """These routes as an operator names them; None: all."""
        if len(routes) == len(self.segments):
            return None
        served = np.zeros(len(self.segments), np.bool_)
        served[routes] = True
        return served

    @cached_property
    def checks(self) -> list[tuple[tuple[int, ...], frozenset[int], NDArray[np.bool_]]]:
        """Residuals due at the end of the legs, the inputs bound by then, and their routes."""
        found: dict[tuple[tuple[int, ...], frozenset[int]], NDArray[np.bool_]] = {}
        for r, s in enumerate(self.segments):
            if s is not None and s.cache is None and s.leg.steps[-1].residuals:
                last = s.leg.steps[-1]
                found.setdefault((last.residuals, last.bound), np.zeros(len(self.segments), np.bool_))[r] = True
        return [(residuals, bound, mine) for (residuals, bound), mine in found.items()]


@dataclass(frozen=True, eq=False)
class RouteTable:
    """Several routes of one pipeline, prepared."""

    routes: tuple[Route, ...]
    entrance: tuple[Operator[Trip], ...]
    """What rows meet as they arrive, before they are grouped by route."""
    operators: tuple[Operator[Trip], ...] = ()
    """What they meet then, in this order; each serves some of the routes."""
    lost: tuple[tuple[Cache, NDArray[np.bool_]], ...] = ()
    """Caches that must hear of new rows and do not on some routes, and which."""

    @cached_property
    def writer(self) -> Writing[Trip, Outlet] | None:
        """The last operator, if it can write results itself."""
        last = self.operators[-1] if self.operators else None
        return last if isinstance(last, Writing) else None


class Maker(Protocol):
    """Makes the operators of prepared routes, in the order in which rows meet them."""

    def entrance(self, rounds: Rounds) -> tuple[Operator[Trip], ...]: ...

    def behind(self, layer: Layer, depth: int) -> Iterable[Operator[Trip]]: ...


class RouteTables:
    """Prepares the routes of one pipeline, and remembers."""

    def __init__(
        self, pipeline: Pipeline, maker: Maker, shape: Shape | None, number: int, caches: Caches | None
    ) -> None:
        self.pipeline = pipeline
        self.maker = maker
        self.caches = caches
        self._version = 0
        self.shape = shape
        self.number = number
        self.first = sum(op.kind == "filter" for op in pipeline.operators) if shape is not None else len(pipeline)
        """The first stem: filters come first in a pipeline."""
        self._parts: dict[tuple[Route, Kind], tuple[tuple[int, ...], tuple[Segment, ...]]] = {}
        self._known: dict[tuple[tuple[Route, ...], Kind], RouteTable] = {}
        self._latest: tuple[tuple[Route, ...], RouteTable] | None = None

    def of(self, ruster: Ruster) -> RouteTable:
        """The routes of a ruster."""
        routes: tuple[Route, ...] = ruster.routes
        kind: Kind = "two phases" if ruster.phases > 1 else "single" if ruster.purpose == "profile" else ""
        if self.caches is not None and self._version != self.caches.version:
            self._version = self.caches.version
            self._parts, self._known, self._latest = {}, {}, None
        if self._latest is not None and self._latest[0] is routes:
            return self._latest[1]
        table = self._known.get((routes, kind))
        if table is None:
            table = self._make([self._part(route, kind) for route in routes], routes)
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[routes, kind] = table
        if len(routes) > 1:
            self._latest = routes, table
        return table

    def _make(
        self, parts: Sequence[tuple[tuple[int, ...], tuple[Segment, ...]]], routes: tuple[Route, ...]
    ) -> RouteTable:
        deepest = max(len(segments) for _, segments in parts)
        layers = [Layer(tuple(s[d] if d < len(s) else None for _, s in parts)) for d in range(deepest)]
        operators = tuple(op for depth, layer in enumerate(layers) for op in self.maker.behind(layer, depth))
        entrance = self.maker.entrance(Rounds.of([ahead for ahead, _ in parts]))
        return RouteTable(routes, entrance, operators, self._lost(parts))

    def _lost(
        self, parts: Sequence[tuple[tuple[int, ...], tuple[Segment, ...]]]
    ) -> tuple[tuple[Cache, NDArray[np.bool_]], ...]:
        watching = [] if self.caches is None else self.caches.watching(self.number)
        found = [(c, np.array([all(c not in s.taps for s in segments) for _, segments in parts])) for c in watching]
        return tuple((cache, lost) for cache, lost in found if lost.any())

    def _part(self, route: Route, kind: Kind) -> tuple[tuple[int, ...], tuple[Segment, ...]]:
        part = self._parts.get((route, kind))
        if part is None:
            if not self.pipeline.allows(route):
                raise DefinitionError(
                    f"the route {route.operators} is not allowed for tuples of '{self.pipeline.stream}'",
                    hint="a policy must name every operator once, each when it is eligible: "
                    f"{self.pipeline.written.operators} is the written order",
                )
            if len(self._parts) >= MOST_KNOWN:
                self._parts.clear()
            part = self._parts[route, kind] = self._cut(route.operators, kind)
        return part

    def _cut(self, route: tuple[int, ...], kind: Kind) -> tuple[tuple[int, ...], tuple[Segment, ...]]:
        """The filters ahead, and the segments."""
        if kind == "two phases":
            from thalweg.execute.twophases import cut

            assert self.shape is not None
            return cut(self.pipeline, self.shape, self.number, route)
        at, single = self._filters(route, 0), kind == "single"
        ahead, segments, bound = route[:at], list[Segment](), frozenset([self.number])
        while at < len(route):
            assert self.shape is not None
            stems = list[int]()
            for op in route[at:]:
                if op < self.first:
                    break
                stems.append(op)
            others = self.shape.others(self.number)
            targets = tuple(others[op - self.first] for op in stems)
            stems_ahead = targets
            cache, targets = self._stop(bound, targets, single)
            leg = self.shape.leg(bound, targets, single) if cache is None else self.shape.whole(bound, targets)
            end = at + len(leg.steps)
            after, reached = self._filters(route, end), leg.steps[-1].bound
            taps = () if self.caches is None else tuple(self.caches.reached(self.number, reached))
            watched = self._shadows(bound, stems_ahead, single)
            segment = Segment(at, bound, route[at:end], leg, route[end:after], cache, taps=taps, shadows=watched)
            if cache is not None:
                fill, plain = fillings(self.shape, bound, targets, cache)
                segment = replace(segment, fill=fill, plain=plain)
            segments.append(segment)
            at, bound = after, reached
        return ahead, tuple(segments)

    def _stop(
        self, bound: frozenset[int], targets: tuple[int, ...], single: bool
    ) -> tuple[Cache | None, tuple[int, ...]]:
        """The cache for the next stems and those that it replaces; else the stems up to where one begins, or to where one
        must hear of what comes out. Profiled rows use none."""
        if not self.caches:
            return None, targets
        for k in range(len(targets)):
            cache = None if single else self.caches.at(self.number, bound | set(targets[:k]), targets[k:])
            if cache is not None:
                return (None, targets[:k]) if k else (cache, targets[: len(cache.inputs)])
            after = bound | set(targets[: k + 1])
            if self.caches.reached(self.number, after) or self._shadows(after, targets[k + 1 :], single):
                return None, targets[: k + 1]
        return None, targets

    def _shadows(self, bound: frozenset[int], ahead: tuple[int, ...], single: bool) -> tuple[Shadow, ...]:
        """Caches that are only watched and would replace the stems that come next."""
        if not self.caches or single:
            return ()
        return self.caches.shadowed(self.number, bound, ahead)

    def _filters(self, route: tuple[int, ...], at: int) -> int:
        """The end of the filters that begin at a place."""
        while at < len(route) and route[at] < self.first:
            at += 1
        return at


def fillings(
    shape: Shape, bound: frozenset[int], targets: tuple[int, ...], cache: Cache
) -> tuple[tuple[Layer, ...], tuple[Layer, ...]]:
    """The stems of a cached segment, for a key that is missing and for rows that the cache can't answer. What is stored
    depends on the rows of the segment and the key alone."""
    steps = shape.whole(bound, targets).steps
    inner = []
    for step in steps:
        due = tuple(r for r in step.residuals if r in cache.cached.judges or shape.over(r) <= cache.cached.inputs)
        inner.append(replace(step, residuals=due, bound=step.bound & cache.cached.inputs))
    return layered(inner), layered(steps)


def layered(steps: Sequence[Step]) -> tuple[Layer, ...]:
    """One route as layers: a leg ends where predicates are due."""
    layers, leg = list[Layer](), list[Step]()
    for k, step in enumerate(steps):
        leg.append(step)
        if step.residuals or k == len(steps) - 1:
            layers.append(Layer((Segment(0, frozenset(), (0,) * len(leg), Leg.of(tuple(leg)), ()),)))
            leg = []
    return tuple(layers)
