"""Taking a snapshot changes no decision, nor does going on from one: every policy, filters and joins.

A wrapper snapshots its policy after random batches, and in the third run also replaces it by a fresh one that takes
the snapshot up. All three runs must record the same events and send the same rusters.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from thalweg import optimize
from thalweg.contract.batch import Batch
from thalweg.contract.policy import Policy
from thalweg.contract.visits import Visits
from thalweg.engine.engine import Engine
from thalweg.lab.simulate import travel
from thalweg.language.bind import bind
from thalweg.language.query import Source
from thalweg.plan import Event, Operator, Pipeline, Ruster

NAMES = sorted(optimize.names())
HOW = ("left alone", "taken", "restored")


class Restarting:
    """Hands everything on to a policy, and snapshots or replaces it now and then."""

    def __init__(self, name: str, pipeline: Pipeline, seed: int, how: str) -> None:
        self._make = lambda: optimize.make(name, pipeline, seed)
        self._policy: Policy = self._make()
        self._how = how
        self._random = np.random.default_rng(seed + 1)
        self._told: list[Event] = []
        """What the policy had decided when it was saved and nobody has heard of yet."""
        self.sent: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._policy, name)
        if name == "ahead":  # asked for once, called after a restart too
            return lambda rows, sent: self._policy.ahead(rows, sent)  # type: ignore[attr-defined]
        return found

    def route(self, batch: Batch) -> list[Ruster]:
        rusters = self._policy.route(batch)
        self.sent += [(r.routes, r.purpose, r.limit, None if r.rows is None else len(r.rows)) for r in rusters]
        return rusters

    def observe(self, visits: Visits) -> None:
        self._policy.observe(visits)
        if self._random.random() < 0.3 and self._how != "left alone":
            events = self._policy.drain()
            record = json.loads(json.dumps(self._policy.snapshot()))
            if self._how == "restored":
                self._policy = self._make()
                self._policy.restore(record)
                assert json.loads(json.dumps(self._policy.snapshot())) == record
            self._told += events

    def drain(self) -> list[Event]:
        told, self._told = [*self._told, *self._policy.drain()], []
        return told


def filters(name: str, how: str, seed: int) -> tuple[list[Any], list[Any]]:
    """Two kinds of rows with opposite best orders; then only one of them comes, by turns; then both, changed."""
    pipeline = Pipeline("s", tuple(Operator(f"f{i}") for i in range(4)))
    policy = Restarting(name, pipeline, seed, how)
    random = np.random.default_rng(seed)
    events = []
    for number in range(80):
        kind = random.integers(0, 2, 500)
        rates = np.array([[0.1, 0.9, 0.8, 0.7], [0.8, 0.7, 0.9, 0.1]])
        if 30 < number < 60:
            kind[:] = number // 10 % 2
        if number >= 60:
            rates = rates[:, [1, 0, 3, 2]]
        bits = random.random((500, 4)) < rates[kind]
        batch = Batch(pa.record_batch({"kind": kind, "noise": random.random(500)}), number)
        costs = np.array([1e-5, 2e-5, 1e-5, 3e-5])
        policy.observe(Visits(number, 500, tuple(travel(bits, costs, r) for r in policy.route(batch))))
        events += policy.drain()
    return events, policy.sent


STREAM = Source(pa.schema([("ts", pa.int64()), ("kind", pa.int64()), ("x", pa.int64()), ("y", pa.int64())]), "ts", "ms")
TABLE = Source(pa.schema([("k", pa.int64())]))
TEXT = "SELECT s.ts FROM s [RANGE 1 SECONDS], t, u WHERE s.x = t.k AND s.y = u.k"


def joins(name: str, how: str, seed: int) -> tuple[list[Any], list[Any]]:
    """Kind 0 rarely matches t, kind 1 rarely u; then one of the kinds comes at a time; then they change places."""
    table = pa.table({"k": np.repeat(np.arange(200), 8)})
    made: list[Restarting] = []

    def make(pipeline: Pipeline, number: int) -> Policy:
        made.append(Restarting(name, pipeline, number, how))
        return made[-1]

    sources = {"s": STREAM, "t": TABLE, "u": TABLE}
    engine = Engine(bind(TEXT, sources), policy=make, seed=seed, tables={"t": table, "u": table})
    random = np.random.default_rng(seed)
    rows = 3000
    for n in range(50):
        kind = random.integers(0, 2, rows) if n < 20 else np.full(rows, (n // 8) % 2)
        poor = random.random((2, rows)) < 0.95
        x, y = random.integers(0, 200, (2, rows))
        first = kind if n < 44 else 1 - kind
        x, y = x + 1000 * ((first == 0) & poor[0]), y + 1000 * ((first == 1) & poor[1])
        engine.push("s", pa.table({"ts": np.arange(n * rows, (n + 1) * rows), "kind": kind, "x": x, "y": y}))
        engine.advance(n * rows)
    return [e for p in made for e in p.drain()] + list(engine.events()), [p.sent for p in made]


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("run", [filters, joins], ids=["filters", "joins"])
@pytest.mark.parametrize("name", NAMES)
def test_snapshots_change_no_decision(name: str, run: Any, seed: int) -> None:
    alone, *others = (run(name, how, seed) for how in HOW)
    for how, (events, sent) in zip(HOW[1:], others, strict=True):
        assert events == alone[0], f"{name}, snapshots {how}: other events"
        assert sent == alone[1], f"{name}, snapshots {how}: other routes"


def test_the_scenes_make_policies_decide() -> None:
    for run in (filters, joins):
        for name in ("agreedy", "auto"):
            assert len(run(name, "left alone", 1)[0]) > 1, (run.__name__, name)
