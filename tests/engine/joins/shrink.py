"""Makes a failing case smaller: halve and drop what can go while the same thing stays wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tests.engine.joins.oracle import DuckOracle
from tests.engine.joins.verdict import verdict

from thalweg.testing.joincase import Advance, CaseSource, JoinCase, Push, Restart, can_join
from thalweg.testing.joinpredicates import aliases
from thalweg.testing.joinrun import MakeTuner


def shrink(
    case: JoinCase, oracle: DuckOracle, wrong: str, tuner: MakeTuner | None = None, *, rounds: int = 400
) -> tuple[JoinCase, str]:
    """The smallest case found in a number of tries, and what is wrong with it."""
    spent = 0
    again = True
    while again and spent < rounds:
        again = False
        for smaller in _smaller(case):
            spent += 1
            if spent > rounds:
                break
            try:
                why = verdict(smaller, oracle.answer(smaller), tuner)
            except Exception:
                continue
            if why is not None and _kind(why) == _kind(wrong):
                case, wrong, again = smaller, why, True
                break
    return case, wrong


def _kind(wrong: str) -> str:
    """Errors stay the error they were; wrong answers stay wrong answers."""
    if not wrong.startswith("Traceback"):
        return "answer"
    told = [line for line in wrong.splitlines() if line and not line.startswith(" ")]  # places and hints are indented
    return told[-1].split(":")[0]


def _smaller(case: JoinCase) -> Iterator[JoinCase]:
    pushed = [(k, r) for k, s in enumerate(case.steps) if isinstance(s, Push) for r in s.rows]
    size = len(pushed) // 2
    while size:
        for at in range(0, len(pushed), size):
            yield _without(case, set(pushed[at : at + size]))
        size //= 2
    for source in case.sources:
        if source.time is None:
            size = (len(source.rows) + 1) // 2
            while size:
                for at in range(0, len(source.rows), size):
                    rows = source.rows[:at] + source.rows[at + size :]
                    yield _with_source(case, replace(source, rows=tuple((k, *r[1:]) for k, r in enumerate(rows))))
                size //= 2
    for k, step in enumerate(case.steps):
        if isinstance(step, (Advance, Restart)) or not step.rows:
            yield replace(case, steps=case.steps[:k] + case.steps[k + 1 :])
    for k in range(len(case.predicates)):
        yield _written(replace(case, predicates=case.predicates[:k] + case.predicates[k + 1 :]))
    if len(case.inputs) > 2:
        for entry in case.inputs:
            yield from _without_input(case, entry.alias)
    for k in range(len(case.select)):
        if len(case.select) > 1:
            yield replace(case, select=case.select[:k] + case.select[k + 1 :])
    for simpler in (
        replace(case, policy="written"), replace(case, layout="hash"), replace(case, slice_rows=1024),
        replace(case, buffer=1 << 14), replace(case, joined=False),
    ):  # fmt: skip
        if simpler != case:
            yield simpler


def _without(case: JoinCase, gone: set[tuple[int, int]]) -> JoinCase:
    steps = tuple(
        Push(s.source, tuple(r for r in s.rows if (k, r) not in gone)) if isinstance(s, Push) else s
        for k, s in enumerate(case.steps)
    )
    return replace(case, steps=steps)


def _without_input(case: JoinCase, alias: str) -> Iterator[JoinCase]:
    inputs = tuple(i for i in case.inputs if i.alias != alias)
    select = tuple(r for r in case.select if r.alias != alias)
    if not select:
        return
    kept = {i.source for i in inputs}
    predicates = tuple(p for p in case.predicates if alias not in aliases(p))
    sources = tuple(s for s in case.sources if s.name in kept)
    smaller = replace(case, inputs=inputs, select=select, predicates=predicates, sources=sources)
    yield _written(replace(smaller, steps=_steps_of(case, kept)))


def _steps_of(case: JoinCase, kept: set[str]) -> tuple[Any, ...]:
    steps: list[Any] = []
    for s in case.steps:
        if isinstance(s, Advance):
            steps.append(Advance(s.watermarks and tuple(m for m in s.watermarks if m[0] in kept)))
        elif not isinstance(s, Push) or s.source in kept:
            steps.append(s)
    return tuple(steps)


def _with_source(case: JoinCase, source: CaseSource) -> JoinCase:
    return replace(case, sources=tuple(source if s.name == source.name else s for s in case.sources))


def _written(case: JoinCase) -> JoinCase:
    return replace(case, joined=case.joined and can_join(case))
