"""The search for a query mesh: which training tuples share a route (Nehme et al., sections 4.3-4.7).

A solution is a partition of the training tuples, written as a tuple of subset numbers ("xy/zw" is (0, 0, 1, 1)). Its
cost is equation (2): share times (cost of the subset's best route + tests on the way to it), and an overhead for each
route. `opt_qm` tries all partitions and is the yardstick; `ii_qm` and `sa_qm` walk by splits and merges, from one of
five start solutions. Invariant: a search never returns a solution that costs more than its start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import exp
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thalweg.optimize.classes.routesearch import RouteSearch
from thalweg.plan import Route
from thalweg.plan.tree import Tree

Solution = tuple[int, ...]
Bits = NDArray[np.int8]


@dataclass
class Model:
    """Training tuples (each stands for `bits[t]`, the sampled tuples condensed into it) and costs."""

    search: RouteSearch
    tree: Tree
    """Its leaves are the training tuples."""
    bits: Sequence[Bits]
    test: float = 0.0
    """Seconds of one test of one tuple."""
    overhead: float = 0.0
    """Seconds per tuple for one more route."""
    evaluated: int = field(default=0)

    def __post_init__(self) -> None:
        rows = np.array([len(b) for b in self.bits], float)
        self.share: list[float] = (rows / rows.sum()).tolist()
        self._rows = float(rows.sum())
        self._weight = [self.search.weigh(b) for b in self.bits] if self.search.exact else []
        self._best: dict[int, tuple[Route, float]] = {}
        self._costs: dict[Solution, float] = {}

    def __len__(self) -> int:
        return len(self.bits)

    def best(self, members: Sequence[int]) -> tuple[Route, float]:
        """The best route of a subset, and its contribution to the mean cost of a tuple."""
        key = sum(1 << t for t in members)
        if key not in self._best:
            if self.search.exact:
                weight = self._weight[members[0]]
                for t in members[1:]:
                    weight = weight + self._weight[t]
                route, total = self.search.best_of(weight)
            else:
                route, total = self.search.best(np.concatenate([self.bits[t] for t in members]))
            self._best[key] = (route, total / self._rows)
        return self._best[key]

    def cost(self, solution: Solution) -> float:
        """Equation (2)."""
        if solution not in self._costs:
            self.evaluated += 1
            subsets = members(solution)
            routes = sum(self.best(own)[1] for own in subsets)
            tests = self._depth(self.tree, solution)[1] if self.test else 0.0
            self._costs[solution] = routes + self.test * tests + self.overhead * (max(solution) + 1)
        return self._costs[solution]

    def _depth(self, tree: Tree, solution: Solution) -> tuple[int | None, float, float]:
        """The one subset below a node (None: several), the tests per tuple below it, and the share of tuples there."""
        if tree.test is None:
            return solution[tree.label], 0.0, self.share[tree.label]
        assert tree.yes is not None
        assert tree.no is not None
        yes, no = self._depth(tree.yes, solution), self._depth(tree.no, solution)
        share = yes[2] + no[2]
        if yes[0] is not None and yes[0] == no[0]:
            return yes[0], 0.0, share
        return None, yes[1] + no[1] + share, share

    def classifying(self, tree: Tree, labels: NDArray[np.integer[Any]]) -> NDArray[np.float64]:
        """Cost per tuple of each label for classifying and the overhead of routes."""
        depth: dict[int, float] = {}
        for label, path in tree.leaves():
            depth[label] = max(depth.get(label, 0.0), len(path))
        deepest = np.array([depth.get(k, 0.0) for k in range(max(depth) + 1)])
        return np.asarray(self.test * deepest[labels] + self.overhead * len(depth))

    def routes(self, solution: Solution) -> list[Route]:
        return [self.best(own)[0] for own in members(solution)]

    def tidied(self, solution: Solution) -> Solution:
        """Merge subsets with the same best route, which never costs more."""
        routes = self.routes(solution)
        first = {route: k for k, route in reversed(list(enumerate(routes)))}
        merged = numbered([first[routes[s]] for s in solution])
        return merged if self.cost(merged) <= self.cost(solution) else solution


def numbered(labels: Sequence[int]) -> Solution:
    """A partition with its subsets numbered in the order of their first members.

    >>> numbered([5, 2, 5, 9])
    (0, 1, 0, 2)
    """
    first: dict[int, int] = {}
    return tuple(first.setdefault(label, len(first)) for label in labels)


def members(solution: Solution) -> list[list[int]]:
    """The subsets of a partition.

    >>> members((0, 1, 0, 2))
    [[0, 2], [1], [3]]
    """
    subsets: list[list[int]] = [[] for _ in range(max(solution) + 1)]
    for t, s in enumerate(solution):
        subsets[s].append(t)
    return subsets


def partitions(n: int) -> Iterator[Solution]:
    """All partitions of n training tuples; there are Bell(n).

    >>> sum(1 for _ in partitions(4))
    15
    """
    if n == 0:
        return
    solution = [0] * n

    def grow(t: int, used: int) -> Iterator[Solution]:
        if t == n:
            yield tuple(solution)
            return
        for s in range(used + 1):
            solution[t] = s
            yield from grow(t + 1, max(used, s + 1))

    yield from grow(1, 1)


def bell(n: int) -> int:
    """The number of partitions, by Bell's triangle.

    >>> [bell(n) for n in range(7)]
    [1, 1, 2, 5, 15, 52, 203]
    """
    row = [1]
    for _ in range(n):
        above, row = row, [row[-1]]
        for number in above:
            row.append(row[-1] + number)
    return row[0]


# Start solutions (4.7)


def content_driven(model: Model, random: np.random.Generator) -> Solution:
    """Tuples of similar content together: those under the same node two tests down the tree."""
    labels = [0] * len(model)

    def cut(tree: Tree, depth: int, group: int) -> None:
        if tree.test is None or depth == 0:
            for leaf, _ in tree.leaves():
                labels[leaf] = group
            return
        assert tree.yes is not None
        assert tree.no is not None
        cut(tree.yes, depth - 1, 2 * group + 1)
        cut(tree.no, depth - 1, 2 * group + 2)

    cut(model.tree, 2, 0)
    return numbered(labels)


def route_driven(model: Model, random: np.random.Generator) -> Solution:
    """Tuples with the same best route together."""
    found: dict[Route, int] = {}
    return numbered([found.setdefault(model.best([t])[0], len(found)) for t in range(len(model))])


def random_pick(model: Model, random: np.random.Generator, tries: int = 10) -> Solution:
    """The best of some random solutions."""
    drawn = [numbered(random.integers(0, len(model), len(model)).tolist()) for _ in range(tries)]
    return min(drawn, key=model.cost)


def extreme_1(model: Model, random: np.random.Generator) -> Solution:
    """One route for all."""
    return (0,) * len(model)


def extreme_n(model: Model, random: np.random.Generator) -> Solution:
    """A route for each."""
    return tuple(range(len(model)))


Start = Callable[[Model, np.random.Generator], Solution]
STARTS: dict[str, Start] = {
    "content-driven": content_driven,
    "route-driven": route_driven,
    "random-pick": random_pick,
    "extreme-1": extreme_1,
    "extreme-N": extreme_n,
}


# Search strategies (4.6, 4.7)


def neighbour(solution: Solution, random: np.random.Generator) -> Solution:
    """One basic move: merge two subsets, or split one."""
    subsets = members(solution)
    large = [s for s, own in enumerate(subsets) if len(own) > 1]
    labels = list(solution)
    if len(subsets) > 1 and (not large or random.random() < 0.5):
        a, b = random.choice(len(subsets), 2, replace=False).tolist()
        return numbered([a if s == b else s for s in labels])
    if not large:
        return solution
    own = subsets[large[int(random.integers(len(large)))]]
    # Often only a few leave: with even cuts alone, one tuple could hardly leave a large subset.
    leaving = random.permutation(own)[: int(random.integers(1, len(own)))].tolist()
    for t in leaving:
        labels[t] = len(subsets)
    return numbered(labels)


def opt_qm(model: Model) -> Solution:
    """The best of all partitions (figure 5)."""
    return min(partitions(len(model)), key=model.cost)


def ii_qm(
    model: Model, start: Solution, random: np.random.Generator, *, iterations: int = 3, plateau: int | None = None,
    budget: int = 400,
) -> Solution:  # fmt: skip
    """Iterative improvement (figure 6): downhill to a local minimum, from `start` first and then from other starts.

    Stops after `iterations` descents or `budget` solutions. A solution counts as a local minimum when `plateau` random
    neighbours in a row are not cheaper.
    """
    patience = plateau or 4 * len(model) + 8
    others = [route_driven, content_driven, random_pick, extreme_n, extreme_1]
    best, looked = start, 0
    for k in range(iterations):
        here = start if k == 0 else others[(k - 1) % len(others)](model, random)
        failed = 0
        while failed < patience and looked < budget:
            looked += 1
            there = neighbour(here, random)
            if model.cost(there) < model.cost(here):
                here, failed = there, 0
            else:
                failed += 1
        if model.cost(here) < model.cost(best):
            best = here
    return best


def sa_qm(
    model: Model, start: Solution, random: np.random.Generator, *, temperature: float = 0.05, cooling: float = 0.97,
    budget: int = 400,
) -> Solution:  # fmt: skip
    """Simulated annealing (figure 7); the best solution met is kept. `temperature` is a share of the start's cost.

    Stops at `budget`, or when frozen (the temperature is below a hundred-thousandth of the start's cost).
    """
    here = best = start
    scale = model.cost(start)
    heat = temperature * scale
    for _ in range(budget):
        if heat < 1e-5 * scale:
            break
        there = neighbour(here, random)
        worse = model.cost(there) - model.cost(here)
        if worse <= 0 or random.random() < exp(-worse / heat):
            here = there
            if model.cost(here) < model.cost(best):
                best = here
        heat *= cooling
    return best


def search(strategy: str, model: Model, start: Solution, random: np.random.Generator, budget: int = 400) -> Solution:
    """Search by name, and merge subsets that turn out to share a route. If the budget allows, examines all
    partitions."""
    if strategy == "opt" or bell(len(model)) <= budget:
        return model.tidied(opt_qm(model))
    return model.tidied((sa_qm if strategy == "sa" else ii_qm)(model, start, random, budget=budget))
