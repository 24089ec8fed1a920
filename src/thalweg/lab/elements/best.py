"""The best plan of each kind by exhaustive search: every plan runs on the same elements, and the least work wins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations, permutations

from thalweg.lab.elements.cache import compatible
from thalweg.lab.elements.join import Element, Join
from thalweg.lab.elements.mjoin import MJoin
from thalweg.lab.elements.tree import Tree, Written, sensible
from thalweg.optimize.caches.candidates import Candidate

Orders = dict[int, tuple[int, ...]]
Plan = MJoin | Tree


def run(plan: Plan, elements: Iterable[Element]) -> int:
    """The work of a plan."""
    for element in elements:
        plan.take(element)
    return plan.work.total


def best_orders(join: Join, elements: Sequence[Element], *, deletions: bool) -> Orders:
    """Without caches a pipeline does not depend on the others, so each gets its own best order."""
    least: dict[int, tuple[int, tuple[int, ...]]] = {}
    streams = range(len(join.names))
    allowed = {i: _orders(join, i) for i in streams}
    for k in range(max(map(len, allowed.values()))):
        orders = {i: own[min(k, len(own) - 1)] for i, own in allowed.items()}
        plan = MJoin(join, orders, deletions=deletions)
        run(plan, elements)
        for i in streams:
            least[i] = min(least.get(i, (plan.spent[i], orders[i])), (plan.spent[i], orders[i]))
    return {i: order for i, (_, order) in least.items()}


def _orders(join: Join, i: int) -> list[tuple[int, ...]]:
    """The orders without products, if there are some."""
    every = list(permutations([j for j in range(len(join.names)) if j != i]))
    return [o for o in every if all(join.shared({i, *o[:k]}, [o[k]]) for k in range(len(o)))] or every


def best_tree(join: Join, elements: Sequence[Element], *, deletions: bool, most: int = 2) -> Written:
    """Of the trees whose nodes join up to `most` children."""
    found = [(run(Tree(join, t, deletions=deletions), elements), k, t) for k, t in enumerate(sensible(join, most))]
    return min(found, key=lambda f: f[:2])[2]


def best_caches(
    join: Join, orders: Orders, candidates: Sequence[Candidate], elements: Sequence[Element], *, deletions: bool
) -> tuple[Candidate, ...]:
    """Of all sets of candidates that can be used together."""
    sets = [s for n in range(len(candidates) + 1) for s in combinations(candidates, n) if compatible(s, orders)]
    found = [(run(MJoin(join, orders, s, deletions=deletions), elements), k) for k, s in enumerate(sets)]
    return sets[min(found)[1]]
