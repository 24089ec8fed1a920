"""Steering: orders from outside. Pin the routes in force or given ones, and release them again.

While frozen, every row takes the pinned route of its input, or that of its class. An order changes cost, never results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from thalweg.engine.dispatch import Dispatch
from thalweg.errors import DefinitionError, did_you_mean
from thalweg.plan import Pipeline, Route


class Steering:
    """Freezes and thaws the dispatches of an engine, by input."""

    def __init__(self, dispatches: Mapping[str, Dispatch]) -> None:
        self._dispatches = dispatches

    def freeze(self, orders: Mapping[str, Sequence[str]] | None = None) -> None:
        """Pin the routes in force, or the given orders of operators by input; nothing changes if one is refused."""
        given = {
            alias: order_of(d.pipeline, orders[alias])
            for alias, d in self._dispatches.items()
            if orders is not None and alias in orders
        }
        for alias, dispatch in self._dispatches.items():
            dispatch.pin(given.get(alias))

    def thaw(self) -> None:
        for dispatch in self._dispatches.values():
            dispatch.release()

    @property
    def frozen(self) -> dict[str, Route]:
        """Pinned routes by input."""
        return {alias: d.frozen for alias, d in self._dispatches.items() if d.frozen is not None}

    @property
    def by_class(self) -> set[str]:
        """Inputs that are frozen with a route for each class."""
        return {alias for alias, d in self._dispatches.items() if d.by_class}


def order_of(pipeline: Pipeline, order: Sequence[str]) -> Route:
    """A route from names of operators; one that the pipeline does not allow is refused."""
    names = pipeline.names
    for name in order:
        if name not in names:
            raise DefinitionError(
                f"rows of '{pipeline.stream}' visit no operator '{name}'", hint=did_you_mean(name, names)
            )
    route = Route(tuple(names.index(name) for name in order))
    if not pipeline.allows(route):
        raise DefinitionError(
            f"'{route.named(names)}' is no order for rows of '{pipeline.stream}': it names every operator once, each "
            "when a predicate connects it",
            hint=f"for example {pipeline.written.named(names)}",
        )
    return route
