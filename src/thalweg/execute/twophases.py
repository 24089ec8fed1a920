"""Routes in two phases: drop probing from where there is a choice of stems, then the joins (thesis 5.2).

Filters and stems before that place are met as on any route. The joins go on from where drop probing left off, at each
stem that it probed by itself with the keys that are known when its turn comes. Two phases and caches do not go
together: a cache looks up what drop probing would have found.
"""

from __future__ import annotations

from itertools import takewhile

from thalweg.execute.routetable import Layer, Segment
from thalweg.execute.shape import Leg, Shape
from thalweg.plan import Pipeline
from thalweg.plan.logical import choice, paths

Operators = tuple[int, ...]


def cut(pipeline: Pipeline, shape: Shape, number: int, route: Operators) -> tuple[Operators, tuple[Segment, ...]]:
    """The filters ahead of a route of input `number`, and its segments."""
    others, stems = shape.others(number), [op.kind == "stem" for op in pipeline.operators]
    first = stems.index(True) if any(stems) else len(stems)

    def filters(at: int) -> int:
        return at + len(list(takewhile(lambda op: op < first, route[at:])))

    def leg(bound: frozenset[int], path: Operators) -> Leg:
        return shape.whole(bound, tuple(others[op - first] for op in path))

    probed, at = choice(pipeline, route), filters(0)
    ahead, segments, bound = route[:at], list[Segment](), frozenset([number])
    alone = dict[int, tuple[int, Leg]]()
    while at < len(route):
        probes = tuple[Layer, ...]()
        if at == probed:
            along = paths(pipeline, route[:at])
            legs = {op: leg(bound, along[op]) for op in route[at:]}
            probes = tuple(Layer((Segment(at, bound, along[op], way, ()),)) for op, way in legs.items())
            alone = {op: (2 * k, way) for k, (op, way) in enumerate(legs.items()) if len(way.steps) == 1}
        ends = probed if at < probed else len(route)
        run = tuple(takewhile(lambda op: op >= first, route[at:ends]))
        way = shape.leg(bound, tuple(others[op - first] for op in run), False)
        end = at + len(way.steps)
        after = filters(end)
        held = tuple(
            alone[op][0] if op in alone and alone[op][1].steps[0].pattern == step.pattern else -1
            for op, step in zip(run, way.steps, strict=False)
        )
        # The last stem's row number is not known before its turn: until then its column has room.
        carrier = shape.row_column(others[route[-1] - first]) if alone else 0
        segments.append(
            Segment(at, bound, run[: len(way.steps)], way, route[end:after], probes=probes, held=held, carrier=carrier)
        )
        at, bound = after, way.steps[-1].bound
    return ahead, tuple(segments)
