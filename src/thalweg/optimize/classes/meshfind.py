"""Find a mesh on a sample: condense it to training tuples, search their partitions, induce the classifier.

A pure function of its input, a copy of the sample and prices, so it can run in a thread beside execution (query mesh 3:
the optimizer works while the executor does; one assignment takes the result). Condensing builds a tree over content
that separates tuples by their outcomes at operators (4.2); its leaves are the training tuples of meshsearch.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Thread
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thalweg.optimize.classes import meshsearch
from thalweg.optimize.classes.routeprices import Bits, Prices
from thalweg.optimize.classes.routesearch import RouteSearch
from thalweg.plan import Pipeline, Route
from thalweg.plan.tree import Tree
from thalweg.profile.content.attributes import Values
from thalweg.profile.content.induce import induce
from thalweg.profile.content.reservoir import packed, unpacked
from thalweg.profile.rates.given import ENOUGH


@dataclass(frozen=True, eq=False)
class Task:
    """A sample and how to search it."""

    pipeline: Pipeline
    prices: Prices
    values: Values
    bits: Bits
    category: list[bool]
    usable: NDArray[np.bool_]
    present: NDArray[np.int64] | None
    """The current class of each sampled tuple, to begin from; None: begin from the start solution."""
    training: int
    strategy: str
    start: str
    budget: int
    test: float
    """Seconds to test one attribute of one tuple."""

    def record(self) -> dict[str, Any]:
        """As plain JSON values, without what follows from the query."""
        prices = {name: getattr(self.prices, name).tolist() for name in ("costs", "examined", "fill")}
        names = ("category", "training", "strategy", "start", "budget", "test")
        return prices | {name: getattr(self, name) for name in names} | {
            "sample": packed(self.values, self.bits),
            "usable": self.usable.tolist(),
            "present": None if self.present is None else self.present.tolist(),
        }  # fmt: skip

    @classmethod
    def of(cls, pipeline: Pipeline, record: dict[str, Any]) -> Task:
        prices = Prices(*(np.array(record[name], float) for name in ("costs", "examined", "fill")))
        present = None if record["present"] is None else np.array(record["present"], np.int64)
        return cls(
            pipeline, prices, *unpacked(record["sample"], len(pipeline)), record["category"],
            np.array(record["usable"], np.bool_), present, record["training"], record["strategy"], record["start"],
            record["budget"], record["test"],
        )  # fmt: skip


@dataclass(eq=False)
class Search:
    """A search beside execution, in a thread of its own that ends with it.

    The result depends only on the task and the seed, so a restored policy can simply search again.
    """

    task: Task
    seed: list[int]
    _thread: Thread | None = field(default=None, repr=False)
    _found: list[Found] = field(default_factory=list, repr=False)

    def begin(self) -> Search:
        if self._thread is None:
            self._thread = Thread(target=self._run, name="thalweg-search", daemon=True)
            self._thread.start()
        return self

    def _run(self) -> None:
        self._found.append(find(self.task, np.random.default_rng(self.seed)))

    def end(self) -> Found:
        """The result; waits for it if necessary."""
        thread = self.begin()._thread
        assert thread is not None
        thread.join()
        if not self._found:
            self._run()  # it failed in its thread: fail here, visibly
        return self._found[0]

    def __getstate__(self) -> dict[str, Any]:
        return {"task": self.task, "seed": self.seed, "_thread": None, "_found": []}

    def record(self) -> dict[str, Any]:
        return {"task": self.task.record(), "seed": self.seed}

    @classmethod
    def of(cls, pipeline: Pipeline, record: dict[str, Any]) -> Search:
        return cls(Task.of(pipeline, record["task"]), record["seed"])


@dataclass(frozen=True, eq=False)
class Found:
    """A mesh: routes and the tree that assigns them."""

    task: Task
    model: meshsearch.Model
    routes: list[Route]
    tree: Tree


def find(task: Task, random: np.random.Generator) -> Found:
    """Condense, search, induce."""
    targets = targets_of(task.bits)
    tree, leaf = induce(
        task.values, task.category, task.usable, targets,
        leaves=task.training, least=ENOUGH, freedom=targets.shape[1] - len(task.pipeline),
    )  # fmt: skip
    pieces = [task.bits[leaf == t] for t in range(int(leaf.max()) + 1)]
    search = RouteSearch(task.pipeline, task.prices)
    model = meshsearch.Model(search, tree, pieces, test=task.test)
    if task.present is None:
        start = meshsearch.STARTS[task.start](model, random)
    else:
        mine = task.present
        start = meshsearch.numbered([int(np.bincount(mine[leaf == t]).argmax()) for t in range(len(model))])
    solution = meshsearch.search(task.strategy, model, start, random, task.budget)
    routes = model.routes(solution)
    return Found(task, model, routes, _classifier(task, model, solution, leaf, routes))


def _classifier(
    task: Task, model: meshsearch.Model, solution: meshsearch.Solution, leaf: NDArray[np.int64], routes: list[Route]
) -> Tree:
    """The cheaper of the condensing tree, pruned, and a tree induced from the routes by information gain."""
    if len(routes) == 1:
        return Tree(0)
    pruned = model.tree.relabelled(dict(enumerate(solution)))
    if sum(1 for _ in pruned.leaves()) == len(routes):
        return pruned  # no tree is smaller
    wanted = np.array(solution)[leaf]
    induced, where = induce(
        task.values, task.category, task.usable, np.eye(len(routes))[wanted], leaves=2 * len(routes), least=ENOUGH
    )
    majority = {t: int(np.bincount(wanted[where == t]).argmax()) for t in range(int(where.max()) + 1)}

    def price(tree: Tree) -> float:
        labels = tree.classify(lambda j: task.values[:, j], len(task.values))
        return float((by_class(task.bits, labels, routes, task.prices) + model.classifying(tree, labels)).mean())

    return min(pruned, induced.relabelled(majority), key=price)


def targets_of(bits: Bits) -> NDArray[np.float64]:
    """What condensing separates: for each operator a column for dropped and passed; for stems one for each doubling of
    the matches that occurs.

    >>> targets_of(np.array([[0, 1], [1, 1]], np.int8)).tolist()
    [[1.0, 0.0, 0.0, 1.0], [0.0, 0.0, 1.0, 1.0]]
    """
    level = np.ceil(np.log2(np.abs(bits.astype(float)) + 1.0)).astype(np.int64)
    columns = [level == k for k in range(max(int(level.max(initial=1)), 1) + 1)]
    return np.concatenate([c for c in columns if c.any() or c is columns[0] or c is columns[1]], axis=1).astype(float)


def by_class(
    bits: Bits, labels: NDArray[np.integer[Any]], routes: Sequence[Route], prices: Prices
) -> NDArray[np.float64]:
    """Cost of each tuple on the route of its class."""
    each = np.zeros(len(bits))
    for k, route in enumerate(routes):
        mine = labels == k
        if mine.any():
            each[mine] = prices.each(bits[mine], route)
    return each
