"""The contract of a policy: route batches, observe visits, explain yourself.

A policy is pure in its inputs (batches, visits, seed): it reads no clock and no globals, so the same inputs give the
same decisions. It knows the pipeline (names, allowed orders) and never an operator's code. What it may do beyond the
three verbs is a capability: a small protocol of its own, which the engine asks for by type.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from thalweg.contract.batch import Batch
from thalweg.contract.explanation import Explanation
from thalweg.contract.visits import Visits
from thalweg.plan import Event, Route, Routes, Ruster


@runtime_checkable
class Policy(Protocol):
    """Chooses the routes of one input."""

    name: str
    plan: Routes

    def route(self, batch: Batch) -> list[Ruster]:
        """Split the batch: each row in exactly one ruster."""
        ...

    def observe(self, visits: Visits) -> None:
        """Learn from what came of the batch; maybe change the routes."""
        ...

    def explain(self) -> Explanation: ...

    def drain(self) -> list[Event]:
        """The decisions since the last call."""
        ...

    def snapshot(self) -> dict[str, Any]:
        """The whole state as one record of plain JSON values. It has no side effect."""
        ...

    def restore(self, record: dict[str, Any]) -> None:
        """Go on from the record of an equal policy of an equal pipeline, deciding exactly as that one would have."""
        ...


@runtime_checkable
class Scouting(Protocol):
    """Sends a few rows of a batch ahead, so that the rest can take the order they ask for."""

    def ahead(self, rows: int, sent: int) -> int:
        """How many of the `rows` that are left go next as scouts; `sent` of their batch went before."""
        ...


@runtime_checkable
class Resting(Protocol):
    """Need not be asked about every batch."""

    @property
    def rest(self) -> int:
        """For how many batches the policy need not be asked: the last rusters are used again or, where those were split
        by row, `assign` classifies. The policy is told of all of them together, and at once if rows are recalled."""
        ...


@runtime_checkable
class Classifying(Protocol):
    """Has classes of rows, each with its own route."""

    def assign(self, batch: Batch) -> list[Ruster]:
        """The rows of a batch by class, on the routes in force. It changes nothing."""
        ...


@runtime_checkable
class Pricing(Protocol):
    """Knows what a row would cost on any allowed route."""

    def price(self, route: Route) -> float | None:
        """Estimated seconds per row, or None while too little is known. It changes nothing."""
        ...


@runtime_checkable
class Priming(Protocol):
    """Has a smaller record for new workers than its whole state."""

    def prior(self) -> dict[str, Any]:
        """What a new worker needs to begin where others are; `restore` reads it."""
        ...


@runtime_checkable
class Formatted(Protocol):
    """Numbers the versions of its records; `restore` gets only records of its own number."""

    format: int
