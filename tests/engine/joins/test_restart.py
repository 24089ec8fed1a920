"""Stop anywhere, go on in a new engine: same rows at the same steps, same late counts, and the books go on."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.engine.joins.check import check

from thalweg.engine.engine import Engine
from thalweg.errors import CheckpointError
from thalweg.language.bind import bind
from thalweg.testing.joincase import Restart
from thalweg.testing.joinrun import run
from thalweg.testing.joins import Seeded, make_case


def uninterrupted(seed, **options):
    case = make_case(seed, **options)
    return replace(case, steps=tuple(s for s in case.steps if not isinstance(s, Restart)))


def restarted(case, seed, times):
    chance = Seeded(seed)
    steps = list(case.steps)
    for _ in range(times):
        steps.insert(chance.integer(0, len(steps)), Restart())
    return replace(case, steps=tuple(steps))


@pytest.mark.parametrize("first", [20_000, 20_040, 20_080])
def test_a_restart_at_any_point_changes_nothing(first, oracle):
    results = 0
    for seed in range(first, first + 40):
        whole = uninterrupted(seed)
        check(restarted(whole, seed, 1 + seed % 3), oracle)
        results += len(run(whole).rows)
    assert results > 100


def test_restart_after_every_step(oracle):
    for seed in range(21_000, 21_015):
        whole = uninterrupted(seed)
        steps = tuple(s for step in whole.steps for s in (step, Restart()))
        check(replace(whole, steps=(Restart(), *steps)), oracle)


def test_the_counts_go_on(oracle):
    """What came, what was late, what was stored: as if nothing had happened."""
    kept = ("rows in", "without key", "built", "stored")
    for seed in range(22_000, 22_030):
        whole = uninterrupted(seed)
        once, twice = run(whole).stats, run(restarted(whole, seed, 2)).stats
        assert once["results"] == twice["results"]
        for name, line in once["sources"].items():
            assert {k: line[k] for k in ("rows", "late")} == {k: twice["sources"][name][k] for k in ("rows", "late")}
        for alias, line in once["inputs"].items():
            assert {k: line[k] for k in kept[:3]} == {k: twice["inputs"][alias][k] for k in kept[:3]}, f"seed {seed}"


@pytest.mark.parametrize("policy", ["written", "chaos"])
def test_decisions_go_on_too(policy):
    """A policy that draws lots draws, after a restart, the ones it would have drawn. (Others also read the clock.)
    Caches are no part of the state, so without them."""

    def met(case):
        inputs = run(case, caches="off").stats["inputs"]
        return {(a, o): (n["rows in"], n["rows out"]) for a, i in inputs.items() for o, n in i["operators"].items()}

    for seed in range(23_000, 23_025):
        whole = uninterrupted(seed, policies=[policy])
        assert met(whole) == met(restarted(whole, seed, 2)), f"seed {seed}"


def test_state_of_another_query_is_refused():
    case = next(c for c in map(make_case, range(100)) if len(c.inputs) == 2 and not c.cross)
    other = next(c for c in map(make_case, range(100)) if len(c.inputs) == 3 and not c.cross)
    state = Engine(bind(case.text, case.specs, case.functions), tables=case.tables).snapshot()
    with pytest.raises(CheckpointError):
        Engine(bind(other.text, other.specs, other.functions), tables=other.tables).restore(state)


@pytest.mark.parametrize("policy", ["auto", "agreedy", "mesh"])
def test_what_another_version_learned_is_not_read(policy, monkeypatch):
    """Records as they were before they said their format: the rows stay the same, and events tell."""
    told, snapshot, restore = [], Engine.snapshot, Engine.restore

    def older(engine):
        parts = snapshot(engine)
        record = json.loads(parts["record"])
        for entry in record["inputs"].values():
            if entry["dispatch"] is not None:
                entry["dispatch"]["policy"] = entry["dispatch"]["policy"]["learned"]
        return parts | {"record": json.dumps(record).encode()}

    def taken_up(engine, parts):
        restore(engine, parts)
        told.extend(engine.events())

    cases = [uninterrupted(seed, policies=[policy]) for seed in range(24_000, 24_010)]
    wanted = [sorted(map(repr, run(case, caches="off").rows)) for case in cases]
    monkeypatch.setattr(Engine, "snapshot", older)
    monkeypatch.setattr(Engine, "restore", taken_up)
    assert [sorted(map(repr, run(restarted(case, case.seed, 1), caches="off").rows)) for case in cases] == wanted
    assert {(e.by, e.kind) for e in told} == {(policy, "begin anew")}
    assert len(told) >= len(cases)
