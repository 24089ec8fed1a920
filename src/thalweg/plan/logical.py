"""Logical filters: each stem of a pipeline as the join along the path that leads to it (thesis 5.2.3).

A stem drops a row iff nothing on its path joins with the row, so stems can be ordered as filters are. The order is
brought back to an allowed route by placing what lies on a filter's path before it. Where a join graph has cycles, paths
follow one of its spanning trees, the one with the shortest paths; the predicates that are not in it are enforced by the
joins themselves. Where only one stem may come next it is joined first, as the root of a star is for all others (5.2.2),
and the paths begin behind it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from thalweg.plan.pipeline import Pipeline

Path = tuple[int, ...]


def paths(pipeline: Pipeline, visited: Collection[int]) -> dict[int, Path]:
    """For each stem that was not visited, the stems to join to get there, itself last.

    >>> from thalweg.plan import Operator
    >>> near = {"r2": None, "r3": None, "r4": {1}, "r5": {1}, "r6": {3}}
    >>> stems = tuple(Operator(n, "stem", near=k and frozenset(k)) for n, k in near.items())
    >>> paths(Pipeline("r1", stems), ())
    {0: (0,), 1: (1,), 2: (1, 2), 3: (1, 3), 4: (1, 3, 4)}
    """
    rest = [op for op, it in enumerate(pipeline.operators) if it.kind == "stem" and op not in visited]
    found: dict[int, Path] = {op: (op,) for op in pipeline.eligible(visited) if op in rest}
    frontier = list(found)
    while frontier:
        here = frontier.pop(0)
        for op in rest:
            near = pipeline.operators[op].near
            if op not in found and near is not None and here in near:
                found[op] = (*found[here], op)
                frontier.append(op)
    return {op: found.get(op, (op,)) for op in rest}


def placed(along: dict[int, Path], order: Sequence[int]) -> Path:
    """The order of stems for an order of logical filters.

    >>> placed({0: (0,), 1: (1,), 2: (1, 2), 3: (1, 3), 4: (1, 3, 4)}, (2, 1, 0, 3, 4))  # the thesis' example
    (1, 2, 0, 3, 4)
    """
    return tuple(dict.fromkeys(op for filter in order for op in along[filter]))


def choice(pipeline: Pipeline, route: Sequence[int]) -> int:
    """The place of a route from which only stems follow and more than one may come next; its end if there is none."""
    for place in range(len(route)):
        stems = all(pipeline.operators[op].kind == "stem" for op in route[place:])
        if stems and len(pipeline.eligible(route[:place])) > 1:
            return place
    return len(route)
