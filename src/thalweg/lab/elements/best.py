"""The best plan of each kind by exhaustive search: every plan runs on the same elements, and the least work wins.

The first `warm` elements fill the windows; their work does not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, permutations

from thalweg.lab.elements.cache import compatible
from thalweg.lab.elements.join import Element, Join
from thalweg.lab.elements.mjoin import MJoin
from thalweg.lab.elements.tree import Tree, Written, sensible
from thalweg.optimize.caches.candidates import Candidate

Orders = dict[int, tuple[int, ...]]
Plan = MJoin | Tree


def run(plan: Plan, elements: Sequence[Element], warm: int = 0) -> int:
    """The work of a plan."""
    before = 0
    for k, element in enumerate(elements):
        if k == warm:
            before = plan.work.total
        plan.take(element)
    return plan.work.total - before


def best_orders(join: Join, elements: Sequence[Element], *, deletions: bool, warm: int = 0) -> Orders:
    """Without caches a pipeline does not depend on the others, so each gets its own best order."""
    least: dict[int, tuple[int, tuple[int, ...]]] = {}
    streams = range(len(join.names))
    allowed = {i: _orders(join, i) for i in streams}
    for k in range(max(map(len, allowed.values()))):
        orders = {i: own[min(k, len(own) - 1)] for i, own in allowed.items()}
        plan = MJoin(join, orders, deletions=deletions)
        run(plan, elements[:warm])
        before = list(plan.spent)
        run(plan, elements[warm:])
        for i in streams:
            spent = plan.spent[i] - before[i], orders[i]
            least[i] = min(least.get(i, spent), spent)
    return {i: order for i, (_, order) in least.items()}


def _orders(join: Join, i: int) -> list[tuple[int, ...]]:
    """The orders without products, if there are some."""
    every = list(permutations([j for j in range(len(join.names)) if j != i]))
    return [o for o in every if all(join.shared({i, *o[:k]}, [o[k]]) for k in range(len(o)))] or every


def best_tree(join: Join, elements: Sequence[Element], *, deletions: bool, warm: int = 0, most: int = 2) -> Written:
    """Of the trees whose nodes join up to `most` children."""
    found = [
        (run(Tree(join, t, deletions=deletions), elements, warm), k, t) for k, t in enumerate(sensible(join, most))
    ]
    return min(found, key=lambda f: f[:2])[2]


def best_caches(
    join: Join, orders: Orders, candidates: Sequence[Candidate], elements: Sequence[Element], *, deletions: bool,
    warm: int = 0,
) -> tuple[Candidate, ...]:  # fmt: skip
    """Of all sets of candidates that can be used together."""
    sets = [s for n in range(len(candidates) + 1) for s in combinations(candidates, n) if compatible(s, orders)]
    found = [(run(MJoin(join, orders, s, deletions=deletions), elements, warm), k) for k, s in enumerate(sets)]
    return sets[min(found)[1]]
