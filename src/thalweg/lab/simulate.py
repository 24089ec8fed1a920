"""Policies over known pass bits: the simplest possible fabric, with exact work and recorded costs.

`bits[t, f]` says whether filter f passes tuple t. Each policy sees the same batches and visits as from the real fabric,
and a test checks that both agree. Nothing is timed, so every number is exact and repeatable. The lab, the benchmarks and
the tests use this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import process_time
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg import optimize
from thalweg.contract.batch import Batch
from thalweg.contract.policy import Policy
from thalweg.contract.visits import COUNTED, DROPPED, ROWS_IN, ROWS_OUT, UNTRIED, WORK, Journey, Visit, Visits
from thalweg.plan import Event, Operator, Pipeline, Ruster

PassBits = NDArray[np.bool_]


@dataclass
class Simulated:
    """What a policy did with a stream: work per batch (useful, and extra for profiling), and its decisions."""

    useful: NDArray[np.float64]
    extra: NDArray[np.float64]
    evaluations: NDArray[np.int64]
    final_order: tuple[int, ...]
    events: list[Event] = field(default_factory=list)
    batch: int = 1000
    orders: list[tuple[int, ...]] = field(default_factory=list)
    """The order of the plan in force when each batch was routed."""

    @property
    def work(self) -> float:
        return float(self.useful.sum() + self.extra.sum())

    def work_between(self, first: int, last: int) -> float:
        """Work on the tuples first..last, in whole batches."""
        a, b = first // self.batch, -(-last // self.batch)
        return float(self.useful[a:b].sum() + self.extra[a:b].sum())

    @property
    def reorders(self) -> int:
        return sum(e.change is not None for e in self.events)


def travel(bits: PassBits, costs: NDArray[np.float64], ruster: Ruster) -> Journey:
    """Send one ruster through filters given as bits."""
    mine = bits if ruster.rows is None else bits[ruster.rows]
    count = len(mine)
    alive = np.ones(count, np.bool_)
    visits = []
    if ruster.ids is not None:
        return _travel_apart(mine, costs, ruster, ruster.ids)
    if ruster.purpose != "profile":
        n, dropped = count, np.full(count, -1, np.int16)
        for op in ruster.route:
            if not n:
                break
            dropped[alive & ~mine[:, op]] = op
            alive &= mine[:, op]
            out = int(np.count_nonzero(alive))
            visits.append(Visit(op, n, out, n * costs[op], work=n))
            n = out
        return Journey(ruster, count, tuple(visits), dropped=dropped if ruster.trace else None)
    last = np.zeros(count, np.bool_)
    seen = np.full(mine.shape, UNTRIED, np.int8)
    for op in ruster.route:
        if ruster.also == "next":
            extra = last
        elif ruster.also == "all" or op in ruster.also:
            extra = ~alive
        else:
            extra = np.zeros(count, np.bool_)
        n, more = int(np.count_nonzero(alive)), int(np.count_nonzero(extra))
        tried = alive | extra
        seen[tried, op] = mine[tried, op]
        passed = alive & mine[:, op]
        if n or more:
            out = int(np.count_nonzero(passed))
            visits.append(Visit(op, n, out, n * costs[op], more, more * costs[op], work=n + more))
        last = alive & ~passed
        alive = passed
    return Journey(ruster, count, tuple(visits), seen)


def _travel_apart(mine: PassBits, costs: NDArray[np.float64], ruster: Ruster, ids: NDArray[np.int32]) -> Journey:
    """The same for a ruster of several routes."""
    orders = np.array([r.operators for r in ruster.routes])
    routes, n = orders.shape
    came, left = np.zeros(routes * n, np.int64), np.zeros(routes * n, np.int64)
    dropped = np.full(len(mine), -1, np.int16)
    alive = np.arange(len(mine))
    for k in range(n):
        op = orders[ids[alive], k]
        holds, cell = mine[alive, op], ids[alive] * n + op
        came += np.bincount(cell, minlength=routes * n)
        left += np.bincount(cell[holds], minlength=routes * n)
        dropped[alive[~holds]] = op[~holds]
        alive = alive[holds]
    counts = np.zeros((routes, n, COUNTED), np.int64)
    counts[:, :, ROWS_IN] = counts[:, :, WORK] = came.reshape(routes, n)
    counts[:, :, ROWS_OUT] = left.reshape(routes, n)
    total = counts.sum(axis=0).tolist()
    met = [(op, total[op][ROWS_IN], total[op][ROWS_OUT]) for op in ruster.route if total[op][ROWS_IN]]
    return Journey(
        ruster, len(mine), tuple(Visit(op, n, out, n * costs[op], work=n) for op, n, out in met),
        dropped=dropped if ruster.trace else None, counts=counts, begun=np.bincount(ids, minlength=routes),
    )  # fmt: skip


def run(
    policy: str | Policy, bits: PassBits, costs: Sequence[float], *, seed: int = 0, batch: int = 1000,
    columns: dict[str, NDArray[Any]] | None = None, names: Sequence[str] | None = None, **options: Any,
) -> Simulated:  # fmt: skip
    """Send the tuples through a policy in batches, and count the work."""
    n = bits.shape[1]
    pipeline = Pipeline("s", tuple(Operator(names[i] if names else f"f{i + 1}") for i in range(n)))
    chosen = optimize.make(policy, pipeline, seed, **options) if isinstance(policy, str) else policy
    cost = np.asarray(costs, float)
    table = pa.record_batch(columns or {"row": np.arange(len(bits))})
    useful, extra, evaluations, events, orders = [], [], [], [], []
    for number, start in enumerate(range(0, len(bits), batch)):
        piece = bits[start : start + batch]
        orders.append(chosen.plan.route.operators)
        rusters = chosen.route(Batch(table.slice(start, batch), number))
        journeys = tuple(travel(piece, cost, r) for r in rusters)
        visits = Visits(number, len(piece), journeys)
        chosen.observe(visits)
        useful.append(sum(v.seconds for j in journeys for v in j.visits))
        extra.append(sum(v.extra_seconds for j in journeys for v in j.visits))
        evaluations.append(sum(v.rows_in + v.extra for j in journeys for v in j.visits))
        events += chosen.drain()
    return Simulated(
        np.array(useful), np.array(extra), np.array(evaluations), chosen.plan.route.operators, events, batch, orders
    )


@dataclass(frozen=True)
class Times:
    """Processor seconds that a policy itself took in each batch, beside the work of the operators."""

    routing: NDArray[np.float64]
    learning: NDArray[np.float64]
    work: NDArray[np.float64]


def timed(policy: Policy, bits: PassBits, columns: dict[str, NDArray[Any]], batch: int = 1000) -> Times:
    """As `run`, with the policy's own time; operators cost one unit each."""
    table, cost = pa.record_batch(columns), np.ones(bits.shape[1])
    routing, learning, work = [], [], []
    for number, start in enumerate(range(0, len(bits), batch)):
        piece, began = bits[start : start + batch], process_time()
        rusters = policy.route(Batch(table.slice(start, batch), number))
        routed = process_time()
        visits = Visits(number, len(piece), tuple(travel(piece, cost, r) for r in rusters))
        travelled = process_time()
        policy.observe(visits)
        policy.drain()
        learning.append(process_time() - travelled)
        routing.append(routed - began)
        work.append(visits.seconds)
    return Times(np.array(routing), np.array(learning), np.array(work))


def order_work(bits: PassBits, order: Sequence[int], costs: Sequence[float]) -> float:
    """Exact work of one order over all tuples."""
    places = list(order)
    drops = ~bits[:, places]
    first = np.where(drops.any(axis=1), drops.argmax(axis=1), len(places) - 1)
    return float(np.cumsum(np.asarray(costs, float)[places])[first].sum())


def best_order(bits: PassBits, costs: Sequence[float]) -> tuple[tuple[int, ...], float]:
    """The order of least work, by dynamic programming over sets of filters: exact, and feasible up to about 16.

    The work of a filter in last place of a set depends only on which filters stand before it, not on their order.
    """
    n = bits.shape[1]
    codes = np.bincount((~bits) @ (1 << np.arange(n)), minlength=1 << n)
    return cheapest(np.array([_alive(codes, chosen) for chosen in range(1 << n)]), costs)


def cheapest(alive: NDArray[np.float64], costs: Sequence[float]) -> tuple[tuple[int, ...], float]:
    """The order of least work, given for each set of filters (as a bit mask) how many tuples none of them drops."""
    n = len(costs)
    best = np.full(1 << n, np.inf)
    last = np.zeros(1 << n, np.int64)
    best[0] = 0.0
    for chosen in range(1 << n):
        for f in range(n):
            if not chosen >> f & 1:
                total = best[chosen] + costs[f] * alive[chosen]
                if total < best[chosen | 1 << f]:
                    best[chosen | 1 << f], last[chosen | 1 << f] = total, f
    order, chosen = [], (1 << n) - 1
    while chosen:
        f = int(last[chosen])
        order.append(f)
        chosen ^= 1 << f
    return tuple(reversed(order)), float(best[-1])


def _alive(codes: NDArray[np.int64], chosen: int) -> float:
    present = np.flatnonzero(codes)
    return float(codes[present[(present & chosen) == 0]].sum())


__all__ = ["DROPPED", "PassBits", "Simulated", "best_order", "cheapest", "order_work", "run", "travel"]
