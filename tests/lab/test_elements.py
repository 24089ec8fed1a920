"""Trees, MJoins and their caches, one element at a time: equal to DuckDB on random joins, element by element."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from thalweg.lab.elements import cache as caching
from thalweg.lab.elements.best import best_caches, best_orders, best_tree, run
from thalweg.lab.elements.cache import Cache, compatible
from thalweg.lab.elements.join import Held, Join, elements
from thalweg.lab.elements.mjoin import MJoin
from thalweg.lab.elements.tree import Tree, trees
from thalweg.optimize.caches.candidates import candidates, global_candidates


def drawn(seed: int, streams: int | None = None) -> tuple[Join, list[tuple[int, int, tuple[Any, ...]]], list[Held]]:
    """A random join: a chain, one key for all, or any classes; few values, some of them NULL; row and range windows."""
    random = np.random.default_rng(seed)
    count = streams or int(random.integers(2, 6))
    match seed % 3:
        case 0:
            classes = [(0,)] * count
        case 1:
            classes = [tuple(c for c in (i - 1, i) if 0 <= c < count - 1) for i in range(count)]
        case _:
            sizes = random.integers(1, 3, count)
            classes = [tuple(sorted(random.choice(3, k, replace=False).tolist())) for k in sizes]
    join = Join(tuple("abcdef"[:count]), tuple(classes))
    rows = []
    for time in np.cumsum(random.integers(1, 3, 70)).tolist():
        i = int(random.integers(count))
        values = tuple(None if random.random() < 0.05 else int(random.integers(3)) for _ in classes[i])
        rows.append((time, i, values))
    windows = [Held(rows=int(random.integers(1, 6))) if random.random() < 0.5 else Held(span=int(random.integers(0, 20)))
               for _ in range(count)]  # fmt: skip
    return join, rows, windows


def by_duckdb(join: Join, rows: list[Any], windows: list[Held]) -> Counter[tuple[int, ...]]:
    """Results as row numbers. A row leaves a row window at the time of the n-th after it."""
    tables, where, own = {}, [], range(len(join.names))
    for i in own:
        mine = [(n, t, v) for n, (t, s, v) in enumerate(rows) if s == i]
        size = windows[i].rows
        ends = [mine[k + size][1] if k + size < len(mine) else 10**9 for k in range(len(mine))] if size else [
            t + windows[i].span + 1 for _, t, _ in mine
        ]  # fmt: skip
        keys = {f"k{c}": pa.array([v[p] for _, _, v in mine], pa.int64()) for p, c in enumerate(join.classes[i])}
        plain = {"n": [m[0] for m in mine], "at": [m[1] for m in mine], "ends": ends}
        tables[f"t{i}"] = pa.table({**{name: pa.array(v, pa.int64()) for name, v in plain.items()}, **keys})
    newest = f"greatest({', '.join(f't{i}.at' for i in own)})"
    where += [f"{newest} < t{i}.ends" for i in own]
    where += [
        f"t{i}.k{c} = t{j}.k{c}" for i, j in combinations(own, 2) for c in set(join.classes[i]) & set(join.classes[j])
    ]
    with duckdb.connect() as db:
        for name, table in tables.items():
            db.register(name, table)
        text = f"SELECT {', '.join(f't{i}.n' for i in own)} FROM {', '.join(tables)} WHERE {' AND '.join(where)}"
        return Counter(db.execute(text).fetchall())


def orders_of(join: Join, random: np.random.Generator) -> dict[int, tuple[int, ...]]:
    streams = range(len(join.names))
    return {i: tuple(int(j) for j in random.permutation([j for j in streams if j != i])) for i in streams}


def told(plan: MJoin | Tree, changes: list[Any]) -> list[Counter[Any]]:
    return [Counter(plan.take(e)) for e in changes]


def wanted(join: Join, rows: list[Any], windows: list[Held]) -> list[Counter[Any]]:
    """What each element changes, by the plain MJoin, whose answer is DuckDB's."""
    changes = list(elements(join, rows, windows))
    found = told(
        MJoin(join, {i: tuple(j for j in range(len(join.names)) if j != i) for i in range(len(join.names))}), changes
    )
    begun = sum((f for f, (_, _, enters) in zip(found, changes, strict=True) if enters), Counter())
    ended = sum((f for f, (_, _, enters) in zip(found, changes, strict=True) if not enters), Counter())
    assert Counter({r[join.count :]: n for r, n in begun.items()}) == by_duckdb(join, rows, windows)
    assert not ended - begun, "a result ends once, after it began"
    return found


@pytest.mark.parametrize("first", range(0, 36, 12))
def test_trees_are_duckdbs_answer_element_by_element(first):
    results = 0
    for seed in range(first, first + 12):
        join, rows, windows = drawn(seed)
        changes, want = list(elements(join, rows, windows)), wanted(join, rows, windows)
        every = list(trees(frozenset(range(len(join.names))), most=len(join.names)))
        random = np.random.default_rng(seed)
        for k in random.permutation(len(every))[:4]:
            assert told(Tree(join, every[k]), changes) == want, f"seed {seed}, tree {every[k]}"
            lives = [w if enters else Counter() for w, (_, _, enters) in zip(want, changes, strict=True)]
            assert told(Tree(join, every[k], deletions=False), changes) == lives, f"seed {seed}, tree {every[k]}"
        results += sum(w.total() for w in want)
    assert results > 200


def caches_of(join: Join, random: np.random.Generator) -> tuple[dict[int, tuple[int, ...]], list[Any]]:
    """Random orders, and a random set of caches that may be used together."""
    orders, chosen = orders_of(join, random), list[Any]()
    every = global_candidates(orders, join.graph, 99) if random.random() < 0.7 else candidates(orders, join.graph)
    for k in random.permutation(len(every)):
        if compatible([*chosen, every[k]], orders):
            chosen.append(every[k])
    return orders, chosen


def compare(seeds: range) -> tuple[int, int, int]:
    """Asked, hits, and sets with a globally-consistent cache."""
    asked = hits = global_ones = 0
    for seed in seeds:
        join, rows, windows = drawn(seed, 3 + seed % 3)
        changes, want = list(elements(join, rows, windows)), wanted(join, rows, windows)
        lives = [w if enters else Counter() for w, (_, _, enters) in zip(want, changes, strict=True)]
        random = np.random.default_rng(seed)
        for _ in range(4):
            orders, chosen = caches_of(join, random)
            limit = None if random.random() < 0.7 else int(random.integers(0, 400))
            plan = MJoin(join, orders, chosen, memory=limit)
            assert told(plan, changes) == want, f"seed {seed}: {orders}, {chosen}"
            assert plan.budget.used >= 0
            assert (
                limit is None or plan.budget.used <= max(limit, 0) or not any(c.entries for c in plan.caches.values())
            )
            assert told(MJoin(join, orders, chosen, deletions=False), changes) == lives, (
                f"seed {seed}: {orders}, {chosen}"
            )
            asked += sum(c.probes for c in plan.caches.values())
            hits += sum(c.probes - c.misses for c in plan.caches.values())
            global_ones += any(c.within for c in plan.caches.values())
    return asked, hits, global_ones


def test_caches_of_both_kinds_change_nothing():
    asked, hits, global_ones = compare(range(40))
    assert hits > 0.1 * asked > 100
    assert global_ones > 40


@pytest.mark.long
def test_many_caches_change_nothing():
    compare(range(1_000, 2_000))


@pytest.mark.parametrize("rule", ["leaves", "unsupported", "hidden"])
def test_what_keeps_globally_consistent_caches_right_is_needed(rule, monkeypatch):
    """The tests can fail: without these rules there are wrong results."""
    if rule == "leaves":
        monkeypatch.setattr(Cache, "left", lambda *_, **__: None)
    elif rule == "unsupported":
        monkeypatch.setattr(Cache, "_unsupported", lambda *_: None)
    else:
        apart = lambda chosen, orders: not any(a.overlaps(b) for a, b in combinations(chosen, 2))  # noqa: E731
        monkeypatch.setattr("tests.lab.test_elements.compatible", apart)
    with pytest.raises((AssertionError, KeyError)):
        compare(range(40))


def test_the_search_finds_what_is_least():
    join, rows, windows = drawn(3, 4)
    changes = list(elements(join, rows, windows))
    tree = best_tree(join, changes, deletions=True)
    works = {t: run(Tree(join, t), changes) for t in trees(frozenset(range(4)))}
    assert works[tree] == min(works.values()) < max(works.values())
    orders = best_orders(join, changes, deletions=True)
    least = run(MJoin(join, orders), changes)
    random = np.random.default_rng(0)
    assert all(run(MJoin(join, orders_of(join, random)), changes) >= least for _ in range(20))
    found = best_caches(join, orders, global_candidates(orders, join.graph, 6), changes, deletions=True)
    assert run(MJoin(join, orders, found), changes) <= least
    assert caching.compatible(found, orders)


def test_the_example_of_the_thesis():
    """5.2 and 5.4: the cache of R2 and R3 for the rows of R1, and a left-deep tree, find (1, 1, 2, 2) and (1, 1, 3, 3)."""
    join = Join(("r1", "r2", "r3"), ((0,), (0, 1), (1,)))
    orders = {0: (1, 2), 1: (2, 0), 2: (1, 0)}
    (cache,) = candidates(orders, join.graph)
    rows = [
        (1, 1, (1, 2)),
        (2, 1, (1, 3)),
        (3, 1, (2, 3)),
        (4, 2, (2,)),
        (5, 0, (1,)),
        (6, 0, (1,)),
        (7, 2, (3,)),
        (8, 0, (1,)),
    ]
    changes = list(elements(join, rows, [Held(rows=9)] * 3))
    plan = MJoin(join, orders, [cache])
    tree = Tree(join, (0, (1, 2)))
    found = [[r[:2] for r in plan.take(e)] for e in changes]
    assert found[4:6] == [[(1, 2)], [(1, 2)]]
    assert sorted(found[7]) == [(1, 2), (1, 3)]
    assert [sorted(r[:2] for r in tree.take(e)) for e in changes] == [sorted(f) for f in found]
    (store,) = plan.caches.values()
    assert (store.probes, store.misses) == (3, 1)
