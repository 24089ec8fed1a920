"""The fabric for joins: rusters travel through filters and stems; results and visits come back. It knows no policy.

A ruster's tuples become partial results that go from stem to stem depth first, in buffers of fixed size: what a stem
returns goes all the way before the stem is asked for more, so an explosion of results needs no memory. Invariants: a
combination is emitted iff all its predicates hold and it lies in its windows at its newest time, whatever the routes; a
predicate's error surfaces only if nothing else drops the row. Profiled rows are counted against stems that do not come
next. Pipelines and their execution: thesis 5.1-5.2. Routes are walked as in fabric.py: a ruster brings its own, and its
numbers lead to filters (`Shape.filters`) and stems (`Shape.others`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.contract.batch import Batch
from thalweg.contract.visits import DROPPED, PASSED, UNTRIED, Journey, Trial, Visit
from thalweg.errors import DefinitionError, PredicateError
from thalweg.execute.filters import Rows, Verdict
from thalweg.execute.meter import Meter, clock
from thalweg.execute.several import apart, together
from thalweg.execute.shape import Leg, Shape, Step
from thalweg.language.query import Column
from thalweg.plan import Pipeline, Route, Ruster
from thalweg.state import kernels
from thalweg.state.columns import FixedValues, take
from thalweg.state.stem import Stem, StemView

Ints = NDArray[np.int64]
TRUST = 1024
"""Units of work before a ruster is first held against its limit."""
BUFFER = 1 << 14
"""Partial results that one step hands on at a time."""
SAMPLE = 64
"""Partial results of a profiled ruster that are counted against each other stem, at each step."""
MOST_KNOWN = 1024
"""Routes that are remembered as allowed."""
RIVAL = 1
"""A stem that was not chosen may cost so many times the chosen one while it is counted; then it is known to be
worse."""


@dataclass(frozen=True, slots=True, eq=False)
class Arrival:
    """Tuples of one input on their way: partial results of one tuple each, and the columns their row numbers point
    into."""

    partial: Ints
    data: pa.RecordBatch
    columns: Mapping[str, FixedValues | pa.Array]
    newest: int
    expiry: int
    """No tuple is older, none expires later."""

    def pick(self, lines: Ints) -> Arrival:
        return replace(self, partial=self.partial.take(lines, axis=0))

    def batch(self, number: int, stream: str, column: int) -> Batch:
        """What a policy gets to see: the tuples as they came; `column` holds their row numbers."""
        if len(self.partial) == self.data.num_rows:
            return Batch(self.data, number, stream)
        return _PickedBatch(self, column, number, stream)


class _PickedBatch(Batch):
    """Some rows of a batch, copied only if a policy looks at them."""

    __slots__ = ("_arrival", "_column", "_picked")

    def __init__(self, arrival: Arrival, column: int, number: int, stream: str) -> None:
        object.__setattr__(self, "_arrival", arrival)
        object.__setattr__(self, "_column", column)
        object.__setattr__(self, "_picked", None)
        object.__setattr__(self, "number", number)
        object.__setattr__(self, "stream", stream)

    @property
    def data(self) -> pa.RecordBatch:
        if self._picked is None:  # type: ignore[attr-defined]
            rows = np.ascontiguousarray(self._arrival.partial[:, self._column])  # type: ignore[attr-defined]
            object.__setattr__(self, "_picked", self._arrival.data.take(pa.array(rows)))  # type: ignore[attr-defined]
        return self._picked  # type: ignore[attr-defined]

    def __len__(self) -> int:
        return len(self._arrival.partial)  # type: ignore[attr-defined]


@dataclass(slots=True)
class _Tally:
    rows_in: int = 0
    rows_out: int = 0
    survivors: int = 0
    seconds: float = 0.0
    work: float = 0.0
    extra: int = 0
    extra_seconds: float = 0.0
    buckets: int = 0
    hashes: int = 0


@dataclass(slots=True)
class _Trip:
    """One ruster under way."""

    input: int
    arrival: Arrival
    pipeline: Pipeline
    ruster: Ruster
    route: tuple[int, ...]
    tallies: list[_Tally]
    pending: dict[int, dict[int, Exception]]
    deferred: set[int] = field(default_factory=set)
    passed: NDArray[np.int8] | None = None
    matches: Ints | None = None
    numbers: Ints | None = None
    """Row numbers of profiled rows, ascending."""
    trials: list[Trial] = field(default_factory=list)
    entries: float = 0.0
    """Rows entered in indexes for the trials."""
    begun: int | None = None
    """How many rows were joined before the rest was recalled, if it was."""
    sampled: set[int] = field(default_factory=set)
    """Places of the route at which partial results have been sampled."""


class JoinFabric:
    """Joins tuples of any input with the stems of the others."""

    def __init__(
        self,
        shape: Shape,
        stems: Sequence[Stem | None],
        *,
        buffer: int = BUFFER,
        meters: Mapping[str, Meter] | None = None,
    ) -> None:
        self.shape = shape
        self.stems = stems
        self._meters = [(meters or {}).get(alias) or clock() for alias in shape.aliases]
        self._allowed: set[tuple[int, Route]] = set()
        self._buffers = [np.empty((buffer, shape.width), np.int64) for _ in shape.aliases]
        self._eligible: dict[tuple[int, frozenset[int]], list[int]] = {}
        self._others = [shape.others(i) for i in range(len(shape.aliases))]

    def admit(self, i: int, arrival: Arrival) -> Ints:
        """The lines of `arrival.partial` that pass the input's filters; they go no further."""
        route = Route(tuple(range(len(self.shape.filters[i]))))
        trip = self._depart(i, arrival, Ruster(None, route))
        partial = self._filter_ahead(trip, len(route), arrival.partial)
        self._raise_pending(trip, partial[:, self.shape.row_column(i)])
        return partial

    def run(
        self, i: int, arrival: Arrival, rusters: Sequence[Ruster], emit: Callable[[int, Arrival, Ints], None]
    ) -> tuple[Ints, Ints, tuple[Journey, ...]]:
        """Send rusters on their routes. Returns the lines of `arrival.partial` that pass the input's filters, those that
        were recalled, and journeys.

        `emit` gets full results, in a buffer that is reused after it returns. Of a ruster that goes over its limit the
        rows not begun are recalled: they are to be routed again.
        """
        kept: list[Ints] = []
        recalled: list[Ints] = []
        journeys: list[Journey] = []
        for several, parts in apart(rusters):
            met = []
            for ruster in parts:
                if (i, ruster.route) not in self._allowed:
                    self._check(i, ruster.route)
                partial = arrival.partial if ruster.rows is None else arrival.partial.take(ruster.rows, axis=0)
                if not len(partial):
                    continue
                partial, rest, journey = self._travel(i, arrival, partial, ruster, emit)
                met.append(journey)
                kept.append(partial)
                recalled.append(rest)
            journeys += together(several, met, len(self.shape.pipeline(i)))
        whole = arrival.partial
        return self.in_order(i, kept, whole), self.in_order(i, recalled, whole), tuple(journeys)

    def _check(self, i: int, route: Route) -> None:
        """Refuse a route on which rows could be emitted without having met every operator; once for each route."""
        pipeline = self.shape.pipeline(i)
        if not pipeline.allows(route):
            raise DefinitionError(
                f"the route {route.operators} is not allowed for tuples of '{pipeline.stream}'",
                hint=f"a policy must name every operator once, each when it is eligible, such as {pipeline.written.operators}",
            )
        if len(self._allowed) > MOST_KNOWN:
            self._allowed.clear()
        self._allowed.add((i, route))

    def in_order(self, i: int, parts: Sequence[Ints], whole: Ints) -> Ints:
        """Lines of `whole`, partial results of one tuple each in the order of their arrival, that came in parts."""
        some = [part for part in parts if len(part)]
        if sum(map(len, some)) == len(whole):
            return whole
        if len(some) < 2:
            return some[0] if some else whole[:0]
        lines = np.concatenate(some)
        return lines.take(np.argsort(lines[:, self.shape.row_column(i)], kind="stable"), axis=0)

    def _travel(
        self, i: int, arrival: Arrival, partial: Ints, ruster: Ruster, emit: Callable[[int, Arrival, Ints], None]
    ) -> tuple[Ints, Ints, Journey]:
        trip = self._depart(i, arrival, ruster)
        pipeline, route = trip.pipeline, trip.route
        rows = len(partial)
        if ruster.purpose == "profile":
            trip.numbers = np.ascontiguousarray(partial[:, self.shape.row_column(i)])
            trip.passed = np.full((rows, len(pipeline)), UNTRIED, np.int8)
            trip.matches = np.full((rows, len(pipeline)), -1, np.int64)
        first = len(self.shape.filters[i])
        at = 0
        while at < len(route) and route[at] < first:
            at += 1
        if at:
            partial = self._filter_ahead(trip, at, partial)
        if self.shape.stored(i) and trip.pending:
            self._raise_pending(trip, partial[:, self.shape.row_column(i)])
        if len(partial):
            self._visit(trip, at, frozenset([i]), partial, emit)
        if trip.passed is not None and trip.matches is not None:
            met = trip.matches[:, first:]
            trip.passed[:, first:] = np.where(met < 0, UNTRIED, met > 0)
        visits = tuple(
            Visit(
                op,
                t.rows_in,
                t.rows_out,
                t.seconds,
                t.extra,
                t.extra_seconds,
                t.survivors if op >= first else None,
                t.work,
                t.buckets,
                t.hashes,
            )
            for op, t in zip(route, trip.tallies, strict=True)
            if t.rows_in or t.extra
        )
        done, rest = partial[: trip.begun], partial[len(partial) if trip.begun is None else trip.begun :]
        told = trip.passed, trip.matches, tuple(trip.trials), trip.begun is not None, trip.entries
        return done, rest, Journey(ruster, rows - len(rest), visits, *told)

    def _depart(self, i: int, arrival: Arrival, ruster: Ruster) -> _Trip:
        route = ruster.route.operators
        return _Trip(i, arrival, self.shape.pipeline(i), ruster, route, [_Tally() for _ in route], {})

    # Filters

    def _filter_ahead(self, trip: _Trip, count: int, partial: Ints) -> Ints:
        """The filters that the route puts before any stem; profiled rows go on after a drop where `also` asks for
        it."""
        rows = partial[:, self.shape.row_column(trip.input)]
        alive = np.ones(len(rows), np.bool_)
        also = trip.ruster.also
        dropped_last = np.zeros(len(rows), np.bool_)
        for k in range(count):
            op, tally = trip.route[k], trip.tallies[k]
            extra = np.zeros(len(rows), np.bool_)
            if trip.passed is not None:
                if also == "all" or (isinstance(also, frozenset) and op in also):
                    extra = ~alive
                elif also == "next":
                    extra = dropped_last & ~alive
            if not alive.any() and not extra.any():
                break
            on_way = np.flatnonzero(alive)
            verdict, tally.seconds = self._judge(trip, op, rows[on_way])
            for position, error in verdict.errors.items():
                trip.pending.setdefault(int(rows[on_way[position]]), {})[op] = error
            gone = on_way[~verdict.holds]
            tally.rows_in, tally.rows_out = len(on_way), len(on_way) - len(gone)
            tally.work = len(on_way)
            if trip.passed is not None:
                trip.passed[on_way, op] = np.where(verdict.holds, PASSED, DROPPED)
                trip.passed[on_way[list(verdict.errors)], op] = UNTRIED
                tried = np.flatnonzero(extra)
                if len(tried):
                    verdict, tally.extra_seconds = self._judge(trip, op, rows[tried])
                    tally.extra = len(tried)
                    tally.work += len(tried)
                    trip.passed[tried, op] = np.where(verdict.holds, PASSED, DROPPED)
                    trip.passed[tried[list(verdict.errors)], op] = UNTRIED
            alive[gone] = False
            dropped_last[:] = False
            dropped_last[gone] = True
        return partial if alive.all() else partial.compress(alive, axis=0)

    def _judge(self, trip: _Trip, op: int, rows: Rows) -> tuple[Verdict, float]:
        if not len(rows):
            return Verdict(np.empty(0, np.bool_)), 0.0
        meter = self._meters[trip.input]
        started = meter.start()
        verdict = self.shape.filters[trip.input][op].evaluate(trip.arrival.data, np.ascontiguousarray(rows))
        return verdict, meter.stop(started, op, len(rows))

    def _raise_pending(self, trip: _Trip, rows: Ints) -> None:
        """Raise the error of the first of these rows that has one, the one that the written order meets first."""
        written = {op: k for k, op in enumerate(trip.pipeline.written)}
        for row in sorted(set(trip.pending) & set(rows.tolist())):
            op = min(trip.pending[row], key=written.__getitem__)
            judge, error = self.shape.filters[trip.input][op], trip.pending[row][op]
            values = ", ".join(f"{c}={trip.arrival.data.column(c)[row].as_py()!r}" for c in judge.columns)
            raise PredicateError(
                f"predicate '{judge.name}' of '{trip.pipeline.stream}' raised {type(error).__name__}: {error}",
                where=values[:200],
                hint="the row passes all other predicates; guard this one or let it return None",
            ) from error

    def _filter_between(
        self, trip: _Trip, k: int, bound: frozenset[int], partial: Ints, emit: Callable[[int, Arrival, Ints], None]
    ) -> None:
        """A filter behind a stem: each arriving row is judged once for all its partial results."""
        op, tally = trip.route[k], trip.tallies[k]
        rows, back = np.unique(partial[:, self.shape.row_column(trip.input)], return_inverse=True)
        verdict, seconds = self._judge(trip, op, rows)
        for position, error in verdict.errors.items():
            trip.pending.setdefault(int(rows[position]), {})[op] = error
        holds = verdict.holds[back]
        passing = partial if holds.all() else partial.compress(holds, axis=0)
        tally.rows_in += len(partial)
        tally.rows_out += len(passing)
        tally.seconds += seconds
        tally.work += len(rows)
        if len(passing):
            self._visit(trip, k + 1, bound, passing, emit)

    # Stems

    def _visit(
        self, trip: _Trip, k: int, bound: frozenset[int], partial: Ints, emit: Callable[[int, Arrival, Ints], None]
    ) -> None:
        """Everything that becomes of partial results from place k of the route on."""
        if k == len(trip.route):
            self._finish(trip, partial, emit)
            return
        if trip.route[k] < len(self.shape.filters[trip.input]):
            self._filter_between(trip, k, bound, partial, emit)
            return
        leg = self._leg(trip, k, bound)
        lines, runs, held = self._tables(trip, leg)
        out = self._buffers[len(bound) - 1]
        count, last = len(leg.steps), leg.steps[-1]
        cursor, stack = np.zeros(kernels.CURSOR, np.int64), np.zeros((count, kernels.STACK), np.int64)
        tallies = np.zeros((count, kernels.TALLY), np.int64)
        blocks = np.empty((count, kernels.AHEAD, self.shape.width), np.int64)
        candidates = np.empty((count, kernels.AHEAD, len(runs)), np.int64)
        living = np.empty((count, kernels.AHEAD), np.int64)
        limit = trip.ruster.limit
        trust = TRUST if limit is not None and len(bound) == 1 else 0
        sampling = trip.matches is not None and k not in trip.sampled
        seconds, meter, first = 0.0, self._meters[trip.input], trip.route[k]
        while True:
            started = meter.start()
            written = kernels.join(
                partial, lines, runs, leg.pairs, leg.adds, out, cursor, blocks, candidates, living, stack, tallies,
                trust, limit or 0.0,
            )  # fmt: skip
            seconds += meter.stop(started, first, 0)
            chunk = out[:written]
            if sampling:
                sampling = False
                trip.sampled.add(k)
                self._sample(trip, k, bound, partial, chunk, int(tallies[0, kernels.WORK]))
                if len(bound) == 1 and self._turns_back(trip, int(tallies[0, kernels.ROWS_OUT]), len(partial)):
                    trip.begun = 0
                    break
            if written and last.residuals:
                chunk = self._settle(trip, last.residuals, last, chunk)
                tallies[-1, kernels.ROWS_OUT] += len(chunk) - written
            if len(chunk):
                self._visit(trip, k + count, last.bound, chunk, emit)
            if cursor[kernels.AT_STEP] < 0:
                break
        if cursor[kernels.RECALLED]:
            trip.begun = int(cursor[kernels.AT_ROW])
        del held
        shares = meter.share(seconds, trip.route[k : k + count], tallies[:, kernels.WORK].tolist())
        for tally, met, share in zip(trip.tallies[k : k + count], tallies.tolist(), shares, strict=True):
            tally.rows_in += met[kernels.ROWS_IN]
            tally.rows_out += met[kernels.ROWS_OUT]
            tally.survivors += met[kernels.SURVIVORS]
            tally.work += met[kernels.WORK]
            tally.buckets += met[kernels.BUCKETS]
            tally.hashes += met[kernels.HASHES]
            tally.seconds += share

    def _leg(self, trip: _Trip, k: int, bound: frozenset[int]) -> Leg:
        """The stems from place k on that are joined in one go: up to a filter or residual; one where rows are sampled."""
        first = len(self.shape.filters[trip.input])
        others = self._others[trip.input]
        targets: list[int] = []
        for op in trip.route[k:]:
            if op < first:
                break
            targets.append(others[op - first])
        return self.shape.leg(bound, tuple(targets), trip.matches is not None)

    def _tables(self, trip: _Trip, leg: Leg) -> tuple[Ints, Ints, list[StemView]]:
        """What the kernel has to know of the stems now: a line for each step, the lines of all their runs, and the
        views whose arrays the lines point into, to be held for as long as the lines are used.
        """
        lines, views, run = [], [], 0
        for step, ends in zip(leg.steps, leg.ends, strict=True):
            view = self._view(step).between(trip.arrival.newest, trip.arrival.expiry)
            lines.append((*view.where, run, run + len(view.runs), *ends, step.number))
            views.append(view)
            run += len(view.runs)
        runs = views[0].runs if len(views) == 1 else np.concatenate([v.runs for v in views])
        return np.array(lines, np.int64), runs, views

    def _view(self, step: Step) -> StemView:
        stem = self.stems[step.target]
        assert stem is not None
        return stem.view(step.pattern)

    def _sample(self, trip: _Trip, k: int, bound: frozenset[int], partial: Ints, chunk: Ints, work: int) -> None:
        """Count some of the partial results against the stems that might have come here instead."""
        first = len(self.shape.filters[trip.input])
        visited = frozenset(trip.route[:k])
        own = self.shape.row_column(trip.input)
        assert trip.matches is not None
        assert trip.numbers is not None
        alone = len(bound) == 1
        if alone and len(chunk) < len(self._buffers[0]):
            # Only if all matches are in the buffer do they tell how often each row matches.
            came = partial[:, own]
            found = np.bincount(np.searchsorted(came, chunk[:, own]), minlength=len(came))
            trip.matches[np.searchsorted(trip.numbers, came), trip.route[k]] = found
        rivals = self._rivals(trip, k, visited)
        if not rivals:
            return
        sample = np.ascontiguousarray(partial[:: max(1, len(partial) // SAMPLE)][:SAMPLE])
        meter = self._meters[trip.input]
        for op in rivals:
            step = self.shape.step(bound, self._others[trip.input][op - first])
            stem = self.stems[step.target]
            assert stem is not None
            started = meter.start()
            counted = stem.count(
                sample, step.pattern, step.pairs, trip.arrival.newest, trip.arrival.expiry,
                max(RIVAL * work, 2 * len(sample)),
            )  # fmt: skip
            (seconds,) = meter.share(meter.stop(started, op, 0), [op], [counted.work])
            trip.entries += counted.entries
            # Those that were not tried come last.
            matches = counted.matches
            rows = len(matches) if matches[-1] >= 0 else int(np.count_nonzero(matches >= 0))
            found = matches[:rows]
            survivors = int(np.count_nonzero(found))
            trip.trials.append(Trial(visited, op, rows, int(found.sum()), survivors, counted.work, seconds))
            tally = trip.tallies[trip.route.index(op)]
            tally.extra += rows
            tally.extra_seconds += seconds
            if alone:
                trip.matches[np.searchsorted(trip.numbers, sample[:rows, own]), op] = found

    def _turns_back(self, trip: _Trip, matches: int, rows: int) -> bool:
        """Whether a ruster that has only seen its first stem had better take another one first."""
        share = trip.ruster.turn
        return share is not None and any(t.rows and t.matches * rows < share * matches * t.rows for t in trip.trials)

    def _rivals(self, trip: _Trip, k: int, visited: frozenset[int]) -> list[int]:
        """The stems that might have come at place k instead, as far as the ruster wants to know of them."""
        key = (trip.input, visited)
        if key not in self._eligible:
            first = len(self.shape.filters[trip.input])
            self._eligible[key] = [op for op in trip.pipeline.eligible(visited) if op >= first]
        also, rest = trip.ruster.also, trip.route[k + 1 :]
        wanted = also if isinstance(also, frozenset) else rest if also == "all" else rest[:1]
        return [op for op in self._eligible[key] if op != trip.route[k] and op in wanted]

    # Checks on candidates

    def column(self, trip_input: int, arrival: Arrival, chunk: Ints, column: Column) -> pa.Array:
        """The values of a column for partial results."""
        i = self.shape.number[column.input]
        rows = np.ascontiguousarray(chunk[:, self.shape.row_column(i)])
        if i == trip_input:
            return take(arrival.columns[column.name], rows)
        stem = self.stems[i]
        assert stem is not None
        return stem.gather(column.name, rows)

    def _settle(self, trip: _Trip, residuals: Sequence[int], step: Step, chunk: Ints) -> Ints:
        """Drop candidates for which a residual does not hold; one that raises is put off until the others have
        judged."""
        chunk = self._verify(trip, step.bound, chunk)
        for r in residuals:
            if not len(chunk):
                break
            try:
                holds = self._holds(trip, r, chunk)
            except PredicateError:
                raise
            except Exception:
                trip.deferred.add(r)
                continue
            if not holds.all():
                chunk = chunk.compress(holds, axis=0)
        return chunk

    def _holds(self, trip: _Trip, r: int, chunk: Ints) -> NDArray[np.bool_]:
        residual = self.shape.residuals[r]
        assert residual.evaluate is not None
        arrays = {c: self.column(trip.input, trip.arrival, chunk, c) for c in residual.columns}
        held = residual.evaluate(arrays)
        if isinstance(held, pa.ChunkedArray):
            held = held.combine_chunks()
        if not isinstance(held, pa.Array) or len(held) != len(chunk):
            raise PredicateError(
                f"predicate '{residual.text}' was given {len(chunk)} pairs and returned no array of as many verdicts",
                hint="a predicate between inputs returns one boolean for each pair it gets",
            )
        return np.asarray(held.cast(pa.bool_()).fill_null(False).to_numpy(zero_copy_only=False), np.bool_)

    def _verify(self, trip: _Trip, bound: frozenset[int], chunk: Ints) -> Ints:
        """Drop candidates whose hashed keys are equal though their values are not."""
        for c in self.shape.hashed:
            coder = self.shape.coders[c]
            holders = [i for i in sorted(bound) if c in self.shape.key_columns[i]]
            if len(holders) < 2 or not len(chunk):
                continue
            names = [Column(self.shape.aliases[i], self.shape.key_columns[i][c][0]) for i in holders]
            reference = self.column(trip.input, trip.arrival, chunk, names[0])
            same = np.ones(len(chunk), np.bool_)
            for name in names[1:]:
                same &= coder.same(reference, self.column(trip.input, trip.arrival, chunk, name))
            if not same.all():
                chunk = chunk.compress(same, axis=0)
        return chunk

    def _finish(self, trip: _Trip, chunk: Ints, emit: Callable[[int, Arrival, Ints], None]) -> None:
        chunk = self._verify(trip, frozenset(range(len(self.shape.aliases))), chunk)
        for r in sorted(trip.deferred):
            if not len(chunk):
                return
            residual = self.shape.residuals[r]
            try:
                holds = self._holds(trip, r, chunk)
            except PredicateError:
                raise
            except Exception as error:
                raise PredicateError(
                    f"predicate '{residual.text}' raised {type(error).__name__}: {error}",
                    hint="the pair passes all other predicates; guard this one or let it return None",
                ) from error
            chunk = chunk.compress(holds, axis=0)
        if trip.pending and len(chunk):
            self._raise_pending(trip, chunk[:, self.shape.row_column(trip.input)])
        if len(chunk):
            emit(trip.input, trip.arrival, chunk)
