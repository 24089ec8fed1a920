"""A policy that is watched while the engine or the fabric calls it: what it gives is checked and noted.

It has exactly the capabilities of the policy inside, so whoever asks by type gets the same answer. Arrays in visits are
made read-only first: visits are told, not lent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from thalweg.contract.batch import Batch
from thalweg.contract.explanation import Explanation
from thalweg.contract.policy import Classifying, Formatted, Policy, Pricing, Priming, Resting, Scouting
from thalweg.contract.visits import Visits
from thalweg.plan import Event, Pipeline, Route, Routes, Ruster


@dataclass
class Notes:
    """What a policy was asked and said, since the notes were last taken."""

    rusters: list[tuple[Any, ...]] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    visits: list[Visits] = field(default_factory=list)
    asked: set[str] = field(default_factory=set)
    """Capabilities that were called."""


class Watched:
    """Calls a policy, and asserts what the contract says of its answers."""

    def __init__(self, policy: Policy, pipeline: Pipeline) -> None:
        self.policy = policy
        self.pipeline = pipeline
        self.notes = Notes()

    @property
    def name(self) -> str:
        return self.policy.name

    @name.setter
    def name(self, name: str) -> None:
        raise AttributeError("a watched policy is not renamed")

    @property
    def plan(self) -> Routes:
        return self.policy.plan

    @plan.setter
    def plan(self, plan: Routes) -> None:
        raise AttributeError("a watched policy owns its routes")

    def route(self, batch: Batch) -> list[Ruster]:
        return self.checked(self.policy.route(batch), len(batch))

    def checked(self, rusters: list[Ruster], rows: int) -> list[Ruster]:
        assert_split(rusters, rows)
        assert_allowed(rusters, self.pipeline)
        self.notes.rusters += [_plain(r) for r in rusters]
        return rusters

    def observe(self, visits: Visits) -> None:
        for journey in visits.journeys:
            for array in (journey.passed, journey.matches, journey.dropped, journey.counts, journey.begun):
                if array is not None:
                    array.flags.writeable = False
        self.notes.visits.append(visits)
        self.policy.observe(visits)

    def explain(self) -> Explanation:
        return self.policy.explain()

    def drain(self) -> list[Event]:
        events = self.policy.drain()
        self.notes.events += events
        return events

    def snapshot(self) -> dict[str, Any]:
        return self.policy.snapshot()

    def restore(self, record: dict[str, Any]) -> None:
        self.policy.restore(record)

    def take_notes(self) -> Notes:
        notes, self.notes = self.notes, Notes()
        return notes


def watch(policy: Policy, pipeline: Pipeline) -> Watched:
    """The policy under watch, with the capabilities it has and no others."""
    skills = {name: member for name, (skill, member) in _SKILLS.items() if isinstance(policy, skill)}
    kind: type[Watched] = type("Watched", (Watched,), skills)
    return kind(policy, pipeline)


def _ahead(self: Any, rows: int, sent: int) -> int:
    self.notes.asked.add("ahead")
    wanted = self.policy.ahead(rows, sent)
    assert 0 <= wanted <= rows, f"{wanted} of {rows} rows are to go ahead"
    return int(wanted)


def _rest(self: Any) -> int:
    self.notes.asked.add("rest")
    rest = self.policy.rest
    assert rest >= 0, f"rests for {rest} batches"
    return int(rest)


def _assign(self: Any, batch: Batch) -> list[Ruster]:
    self.notes.asked.add("assign")
    rusters: list[Ruster] = self.checked(self.policy.assign(batch), len(batch))
    return rusters


def _price(self: Any, route: Route) -> float | None:
    price: float | None = self.policy.price(route)
    return price


def _prior(self: Any) -> dict[str, Any]:
    prior: dict[str, Any] = self.policy.prior()
    return prior


_SKILLS: dict[str, tuple[Any, Any]] = {
    "ahead": (Scouting, _ahead),
    "rest": (Resting, property(_rest)),
    "assign": (Classifying, _assign),
    "price": (Pricing, _price),
    "prior": (Priming, _prior),
    "format": (Formatted, property(lambda self: self.policy.format)),
}


def _plain(ruster: Ruster) -> tuple[Any, ...]:
    rows = None if ruster.rows is None else ruster.rows.tobytes()
    ids = None if ruster.ids is None else ruster.ids.tobytes()
    return rows, ids, tuple(r.operators for r in ruster.routes), ruster.purpose, ruster.also, ruster.labels


def assert_split(rusters: Sequence[Ruster], rows: int) -> None:
    """Each row is in exactly one ruster, and has one of its routes."""
    parts = [np.arange(rows) if r.rows is None else np.asarray(r.rows) for r in rusters]
    for part, ruster in zip(parts, rusters, strict=True):
        assert (part.dtype.kind, part.ndim) == ("i", 1), f"rows are positions, not {part.dtype} of shape {part.shape}"
        if ruster.ids is not None:
            assert len(ruster.ids) == len(part), f"{len(part)} rows have {len(ruster.ids)} route ids"
            assert not len(part) or 0 <= ruster.ids.min() <= ruster.ids.max() < len(ruster.routes), "no such route"
    together = np.sort(np.concatenate([*parts, np.zeros(0, np.int64)]))
    assert together.tolist() == list(range(rows)), f"{rows} rows were split into {[len(p) for p in parts]}"


def assert_allowed(rusters: Sequence[Ruster], pipeline: Pipeline) -> None:
    """Every route is one that the pipeline allows."""
    for ruster in rusters:
        for route in ruster.routes:
            assert pipeline.allows(route), f"{route.operators} is not allowed in {pipeline}"
        if isinstance(ruster.also, frozenset):
            assert ruster.also <= set(range(len(pipeline))), f"also={ruster.also} names operators that are not there"
