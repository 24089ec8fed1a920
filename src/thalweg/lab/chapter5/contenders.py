"""M, X, P and G side by side (thesis 5.8.4): the plans, their work and their processor time on the same elements.

M is the MJoin with the best orders, X the tree with the least work, P the best set of caches that satisfy the prefix
invariant on M's orders, G the best with globally-consistent ones, of `QUOTA` candidates. All are found by running them.
"""

from __future__ import annotations

import gc
from time import process_time

from thalweg.lab.chapter5.streams import Streams
from thalweg.lab.elements.best import Orders, Plan, best_caches, best_orders, best_tree
from thalweg.lab.elements.mjoin import MJoin
from thalweg.lab.elements.tree import Tree, named
from thalweg.lab.estimate import Estimate
from thalweg.lab.experiment import Measurements, Value
from thalweg.optimize.caches.candidates import Candidate, candidates, global_candidates

PAPER = "Babu: Adaptive Query Processing in Data Stream Management Systems (2005)"
M, X, P, G = "MJoin", "best tree", "prefix caches", "global caches"
CAST = (M, X, P, G)
QUOTA = 6
DELETIONS = "rows are joined again when they leave"
LIVES = "rows are joined once"
"""The thesis' windows give each row back as a deletion, which is joined again. Thalweg's results know when they end, so
here a row that leaves only takes with it what holds it."""
MODES = {DELETIONS: True, LIVES: False}

Row = dict[str, Value]


def found(streams: Streams, searched: int, *, deletions: bool, caches: bool = True) -> dict[str, Plan]:
    """The best plan of each kind, by the first elements; not yet run."""
    join, warm = streams.join, streams.warm
    sample = streams.elements[: warm + searched]
    orders = best_orders(join, sample, deletions=deletions, warm=warm)
    plans: dict[str, Plan] = {
        M: MJoin(join, orders, deletions=deletions),
        X: Tree(join, best_tree(join, sample, deletions=deletions, warm=warm), deletions=deletions),
    }
    for name, every in offered(streams, orders).items() if caches else ():
        chosen = best_caches(join, orders, every, sample, deletions=deletions, warm=warm)
        plans[name] = MJoin(join, orders, chosen, deletions=deletions)
    return plans


def again(plan: Plan, memory: int | None = None) -> Plan:
    """The same plan, from the beginning."""
    if isinstance(plan, Tree):
        return Tree(plan.join, plan.written, deletions=plan.deletions)
    return MJoin(plan.join, plan.orders, plan.placed, deletions=plan.deletions, memory=memory)


def offered(streams: Streams, orders: Orders) -> dict[str, list[Candidate]]:
    """Candidates of P and of G."""
    graph = streams.join.graph
    return {P: candidates(orders, graph), G: global_candidates(orders, graph, QUOTA)}


def measured(streams: Streams, plans: dict[str, Plan], here: Row) -> list[Row]:
    """A row for each plan: work and microseconds for an element once windows are full, relative to M's, and results,
    which must be the same."""
    rows: list[Row] = []
    count = len(streams.elements) - streams.warm
    for name, plan in plans.items():
        for element in streams.elements[: streams.warm]:
            plan.take(element)
        before, results, looked = plan.work.total, 0, _looked_up(plan)
        gc.collect()
        began = process_time()
        for element in streams.elements[streams.warm :]:
            results += len(plan.take(element))
        took = process_time() - began
        rows.append(
            here | {"policy": name, "work": (plan.work.total - before) / count, "microseconds": 1e6 * took / count,
                    "results": results, "plan": described(plan)} | _met(plan, looked)
        )  # fmt: skip
    assert len({r["results"] for r in rows}) == 1, f"results differ: {rows}"
    base = next(r for r in rows if r["policy"] == M)
    for r in rows:
        for column in ("work", "microseconds"):
            r[f"relative {column}"] = float(r[column]) / float(base[column])  # type: ignore[arg-type]
    return rows


def _looked_up(plan: Plan) -> tuple[int, int]:
    """Probes of caches, and how many missed."""
    caches = [] if isinstance(plan, Tree) else list(plan.caches.values())
    return sum(c.probes for c in caches), sum(c.misses for c in caches)


def _met(plan: Plan, before: tuple[int, int]) -> Row:
    """What is kept, and how often caches answered since they had been asked so often."""
    if isinstance(plan, Tree):
        return {"bytes": plan.bytes}
    probes, misses = (now - then for now, then in zip(_looked_up(plan), before, strict=True))
    return {"bytes": plan.budget.most, "caches": len(plan.caches), "uses": sum(map(len, plan.asked)),
            "hits": 1 - misses / probes if probes else 0.0}  # fmt: skip


def described(plan: Plan) -> str:
    """A tree, or orders and caches, in words."""
    names = plan.join.names
    if isinstance(plan, Tree):
        return named(plan.join, plan.written)
    orders = "; ".join(f"{names[i]}: {' '.join(names[j] for j in o)}" for i, o in sorted(plan.orders.items()))
    caches = ", ".join(c.placed.named(names) for c in plan.placed)
    return f"{orders}{'; caches ' + caches if caches else ''}"


def relative(m: Measurements, over: str, under: str, column: str, **where: Value) -> Estimate:
    """The cost of one contender over that of another: below 1 where the first is cheaper."""
    return m.ratio(column, {"policy": over}, {"policy": under}, **where)


def relatives(
    m: Measurements, over: str, under: str, by: str, column: str = "work", **where: Value
) -> dict[str, Estimate]:
    """The same at each x."""
    return {f"{by} {x}": relative(m, over, under, column, **where, **{by: x}) for x in m.distinct(by, **where)}
