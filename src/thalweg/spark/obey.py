"""How workers obey the user's orders: pin routes, release them, and ignore invalid ones.

An order from an old or damaged file must never stop a query, so one that fits no pipeline becomes an event.
"""

from __future__ import annotations

from collections.abc import Sequence

from thalweg.engine.engine import Engine
from thalweg.engine.steering import order_of
from thalweg.errors import DefinitionError
from thalweg.plan import Event, Pipeline, Reason, Route
from thalweg.spark.control import Control

_told: set[str] = set()
"""Problems already reported by this worker."""


def pinned(names: Sequence[str], pipeline: Pipeline) -> tuple[Route | None, str]:
    """The route for an order of names, or None and the problem if the pipeline does not allow it."""
    try:
        return order_of(pipeline, names), ""
    except DefinitionError as error:
        return None, f"an order is ignored: {error}"


def ignored(problem: str, policy: str) -> list[Event]:
    """An event for a problem, the first time this worker meets it."""
    if not problem or problem in _told:
        return []
    _told.add(problem)
    return [Event(policy, "order ignored", 0, 0, Reason(problem))]


def obey(engine: Engine, folder: str, key: str, policy: str) -> list[Event]:
    """Pin or release a cell's routes as the driver last ordered; returns events to report."""
    orders, problem = Control(folder, key).orders()
    if not orders.frozen:
        engine.thaw()
        return ignored(problem, policy)
    pipelines = {s.alias: s.pipeline for block in engine.blocks for s in block.stages}
    fitting, events = {}, []
    for alias, names in orders.routes.items():
        route, problem = pinned(names, pipelines[alias]) if alias in pipelines else (None, f"no input '{alias}'")
        if route is not None:
            fitting[alias] = names
        events += ignored(problem, policy)
    engine.freeze(fitting)
    return events
