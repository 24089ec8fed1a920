"""Decisions as immutable values: policies and tuners make them, the engine obeys."""

from thalweg.plan.change import Change
from thalweg.plan.event import Event
from thalweg.plan.pipeline import Operator, Pipeline
from thalweg.plan.plan import Plan
from thalweg.plan.reason import Reason
from thalweg.plan.route import Route
from thalweg.plan.routes import Routes
from thalweg.plan.ruster import Purpose, Ruster

__all__ = ["Change", "Event", "Operator", "Pipeline", "Plan", "Purpose", "Reason", "Route", "Routes", "Ruster"]
