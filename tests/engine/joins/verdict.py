"""Whether an engine's outcome of a case is the definition's: rows, the step of each, its time, and what was dropped."""

from __future__ import annotations

import traceback
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from tests.engine.joins.oracle import Answer

from thalweg.testing.joincase import JoinCase, Row
from thalweg.testing.joinrun import MakeTuner, Outcome, run


def verdict(case: JoinCase, answer: Answer, tuner: MakeTuner | None = None) -> str | None:
    """What is wrong with the engine's outcome, or None."""
    return judged(case, answer, tuner)[0]


def judged(case: JoinCase, answer: Answer, tuner: MakeTuner | None = None) -> tuple[str | None, int]:
    """What is wrong with the engine's outcome, or None; and the rows that came to a cache."""
    timed = case.seed % 4 == 0
    try:
        outcome = run(case, timed=timed, tuner=tuner)
    except Exception:
        return traceback.format_exc(limit=-4), 0
    wanted = expected(case, answer, timed=timed)
    found = list(zip(_plain(case, _rows(outcome)), outcome.steps, strict=True))
    wrong = (
        difference("rows", Counter(r for r, _ in wanted), Counter(r for r, _ in found))
        or difference("rows and their steps", Counter(wanted), Counter(found))
        or difference("late", Counter(case.late()), Counter(outcome.late))
        or difference("without time", Counter(case.timeless()), Counter(outcome.timeless))
    )
    return wrong, outcome.looked_up


def _rows(outcome: Outcome) -> Sequence[Row]:
    if not outcome.times:
        return outcome.rows
    return [(*r, t) for r, t in zip(outcome.rows, outcome.times, strict=True)]


def difference(what: str, wanted: Counter[Any], found: Counter[Any]) -> str | None:
    """How two counts differ, in words; None where they are equal."""
    if wanted == found:
        return None
    missing, surplus = wanted - found, found - wanted
    return (
        f"{what}: {missing.total()} missing, such as {list(missing.items())[:3]}; "
        f"{surplus.total()} too many, such as {list(surplus.items())[:3]}"
    )


def _plain(case: JoinCase, rows: Sequence[Row]) -> Sequence[Row]:
    """Values that compare as the same bits: NaN equals itself, and zeros of other sign do not."""
    types = [case.source(case.input(r.alias).source).schema.field(r.column).type for r in case.select]
    if not any(map(pa.types.is_floating, types)):
        return rows
    return [tuple(repr(v) if isinstance(v, float) else v for v in row) for row in rows]


def expected(case: JoinCase, answer: Answer, *, timed: bool = False) -> list[tuple[Row, int]]:
    """The output rows of an answer, each with the step at which it must come out."""
    if not answer:
        return []
    chosen = dict(zip((i.alias for i in case.inputs), zip(*answer, strict=True), strict=True))
    columns = []
    for r in case.select:
        source = case.source(case.input(r.alias).source)
        at = source.schema.get_field_index(r.column)
        columns.append([source.rows[row][at] for row in chosen[r.alias]])
    streams = [(i.alias, case.source(i.source)) for i in case.inputs if i.window is not None]
    moments: list[int | None] = [None] * len(answer)
    steps = [len(case.steps)] * len(answer)
    if streams:
        times = [[s.micros(row) for row in chosen[alias]] for alias, s in streams]
        newest = [max(together) for together in zip(*times, strict=True)]
        moments = [*newest]
        if case.ordered:
            # Complete once every stream has promised to bring nothing as old; promises are never taken back.
            reached = [min(marks.values()) for marks in case.marks()]
            steps = [bisect_right(reached, moment) for moment in newest]
        else:
            arrived = {name: dict(seen) for name, seen in case.arrivals().items()}
            came = [[arrived[s.name][row] for row in chosen[alias]] for alias, s in streams]
            steps = [max(together) for together in zip(*came, strict=True)]
    rows = _plain(case, list(zip(*columns, *([moments] if timed else []), strict=True)))
    return list(zip(rows, steps, strict=True))
