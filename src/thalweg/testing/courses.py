"""A course: batches that a policy is driven through, by the real fabric, on recorded costs.

A course makes runs. A run has fresh policies, one for each input, and goes step by step; what they do in a step is a
plain value, so that two runs can be compared. Nothing is timed: a run is the same on every machine.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from thalweg.contract.policy import Policy
from thalweg.plan import Event, Pipeline
from thalweg.testing.watched import Notes, Watched, watch

Make = Callable[[Pipeline, int], Policy]
"""A policy class, or anything else that makes a policy of a pipeline and a seed."""


@dataclass(frozen=True)
class Step:
    """What came of one step: by input the rusters, events, routes and version of its policy; and the rows out."""

    rusters: tuple[tuple[Any, ...], ...]
    events: tuple[tuple[Event, ...], ...]
    routes: tuple[tuple[tuple[str, tuple[int, ...]], ...], ...]
    versions: tuple[int, ...]
    rows: tuple[Any, ...]


class Drive(ABC):
    """One drive along a course."""

    def __init__(self, make: Make, seed: int) -> None:
        self._make = make
        self.seed = seed
        self.policies: dict[str, Watched] = {}
        """By input."""
        self.taken = 0
        self.notes: dict[str, Notes] = {}
        """By input, what was noted in the last step."""

    def make(self, pipeline: Pipeline, seed: int) -> Policy:
        watched = watch(self._make(pipeline, seed), pipeline)
        self.policies[pipeline.stream] = watched
        return watched

    @property
    @abstractmethod
    def length(self) -> int:
        """Steps in all."""

    @abstractmethod
    def feed(self, step: int) -> tuple[Any, ...]:
        """Send the batches of a step; returns the rows that come out."""

    @abstractmethod
    def save(self) -> Any:
        """All state, policies included."""

    @abstractmethod
    def load(self, saved: Any) -> None:
        """Go on, in a fresh run, from the state of another."""

    def step(self) -> Step:
        rows = self.feed(self.taken)
        self.taken += 1
        self.notes = {name: p.take_notes() for name, p in self.policies.items()}
        plans = [p.plan for p in self.policies.values()]
        return Step(
            tuple(tuple(n.rusters) for n in self.notes.values()),
            tuple(tuple(n.events) for n in self.notes.values()),
            tuple(tuple((label, r.operators) for label, r in plan.routes.items()) for plan in plans),
            tuple(plan.version for plan in plans),
            rows,
        )

    def steps(self, last: int | None = None) -> list[Step]:
        """All steps to the end, or up to a number of them."""
        return [self.step() for _ in range(self.taken, self.length if last is None else last)]


class Course(Protocol):
    """What makes runs."""

    def run(self, make: Make, seed: int = 5) -> Drive: ...


def assert_same(one: Sequence[Step], two: Sequence[Step], what: str) -> None:
    """Two runs did the same: events, plans, rusters and rows."""
    for number, (a, b) in enumerate(zip(one, two, strict=True)):
        assert a.events == b.events, f"{what}: other events in step {number}: {a.events} and {b.events}"
        assert a.routes == b.routes, f"{what}: another plan after step {number}: {a.routes} and {b.routes}"
        assert a.rows == b.rows, f"{what}: other rows in step {number}"
        assert a == b, f"{what}: other rusters in step {number}"
