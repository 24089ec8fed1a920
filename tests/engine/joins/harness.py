"""One comparison: the engine's outcome of a case against the definition; and making a failing case smaller.

A failure is printed as the smallest case found, with its SQL, its rows, its history and its seed, as a script that
runs by itself.
"""

from __future__ import annotations

import traceback
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from tests.engine.joins.oracle import Answer, DuckOracle, TooLarge

from thalweg.language.bind import bind
from thalweg.testing.joincase import Advance, CaseSource, JoinCase, Push, Restart, Row, aliases, can_join
from thalweg.testing.joinrun import Outcome, layouts, run, watermarks
from thalweg.testing.joins import make_case


@dataclass
class Tally:
    """What a run of cases has looked at."""

    cases: int = 0
    results: int = 0
    empty: int = 0
    skipped: int = 0
    """Cases with more results than are looked at."""

    def __str__(self) -> str:
        return (
            f"{self.cases:,} cases equal to DuckDB, {self.results:,} results, {self.empty:,} cases without any, "
            f"{self.skipped:,} skipped as too large"
        )

    def add(self, other: Tally) -> None:
        self.cases += other.cases
        self.results += other.results
        self.empty += other.empty
        self.skipped += other.skipped


class Mismatch(AssertionError):
    """The engine's answer is not the definition's."""


def check(case: JoinCase, oracle: DuckOracle, tally: Tally | None = None) -> None:
    """Raise Mismatch, with a smaller case, if the engine's rows, their moments or its late counts are wrong."""
    try:
        answer = oracle.answer(case)
    except TooLarge:
        if tally is not None:
            tally.skipped += 1
        return
    wrong = verdict(case, answer)
    if wrong is not None:
        small, why = shrink(case, oracle, wrong)
        raise Mismatch(f"{why}\n{report(small, oracle)}")
    if tally is not None:
        tally.cases += 1
        tally.results += len(answer)
        tally.empty += not answer


_oracle: DuckOracle | None = None


def check_seeds(seeds: range) -> Tally:
    """The cases of these seeds, in whatever process this is called."""
    global _oracle
    _oracle = _oracle or DuckOracle()
    tally = Tally()
    for seed in seeds:
        check(make_case(seed), _oracle, tally)
    return tally


def verdict(case: JoinCase, answer: Answer) -> str | None:
    """What is wrong with the engine's outcome, or None."""
    timed = case.seed % 4 == 0
    try:
        outcome = run(case, timed=timed)
    except Exception:
        return traceback.format_exc(limit=-4)
    wanted = expected(case, answer, timed=timed)
    found = list(zip(_plain(case, _rows(outcome)), outcome.steps, strict=True))
    if Counter(wanted) == Counter(found):
        return _difference("late", Counter(case.late()), Counter(outcome.late))
    return _difference("rows", Counter(r for r, _ in wanted), Counter(r for r, _ in found)) or _difference(
        "rows and their steps", Counter(wanted), Counter(found)
    )


def _rows(outcome: Outcome) -> Sequence[Row]:
    if not outcome.times:
        return outcome.rows
    return [(*r, t) for r, t in zip(outcome.rows, outcome.times, strict=True)]


def _difference(what: str, wanted: Counter[Any], found: Counter[Any]) -> str | None:
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
        times = [[s.times[row] for row in chosen[alias]] for alias, s in streams]
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


# --- smaller ----------------------------------------------------------------------------------------------------------


def shrink(case: JoinCase, oracle: DuckOracle, wrong: str, rounds: int = 400) -> tuple[JoinCase, str]:
    """Halve and drop what can go while something stays wrong."""
    spent = 0
    again = True
    while again and spent < rounds:
        again = False
        for smaller in _smaller(case):
            spent += 1
            if spent > rounds:
                break
            try:
                why = verdict(smaller, oracle.answer(smaller))
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


# --- said ------------------------------------------------------------------------------------------------------------


def report(case: JoinCase, oracle: DuckOracle) -> str:
    """The case as a script that needs nothing but Thalweg."""
    lines = [
        f"# seed {case.seed}, shape {case.shape}",
        "import datetime",
        "from decimal import Decimal",
        "import pyarrow as pa",
        "from thalweg.engine.engine import Engine",
        "from thalweg.language.bind import bind",
        "from thalweg.language.query import Source",
        "from thalweg.testing.joincase import FUNCTIONS",
        "from thalweg.state.index import Layout",
        "nan, inf = float('nan'), float('inf')",
        "",
    ]
    for s in case.sources:
        fields = ", ".join(f"({f.name!r}, {_type(f.type)})" for f in s.schema)
        lines.append(f"{s.name} = Source(pa.schema([{fields}]), {s.time!r}, {s.unit!r}, {s.lateness})")
        pushed = {r for p in case.steps if isinstance(p, Push) and p.source == s.name for r in p.rows}
        used = range(len(s.rows)) if s.time is None else sorted(pushed)
        lines.append(f"{s.name}_rows = {{")
        lines += [f"    {r}: {s.rows[r]!r}," for r in used]
        lines.append("}")
    lines += [
        "",
        "def rows(source, data, numbers):",
        "    return pa.table([pa.array([data[n][k] for n in numbers], f.type) for k, f in enumerate(source.schema)], "
        "schema=source.schema)",
        "",
        f"text = '''{case.text}'''",
        f"query = bind(text, {{{', '.join(f'{s.name!r}: {s.name}' for s in case.sources)}}}, FUNCTIONS)",
    ]
    query = bind(case.text, case.specs, case.functions)
    static = [s.name for s in case.sources if s.time is None]
    tables = ", ".join(f"{n!r}: rows({n}, {n}_rows, {n}_rows)" for n in static)
    lines += [
        "def engine(layout):",
        f"    return Engine(query, policy={case.policy!r}, seed={case.seed % 1000}, layout=layout,",
        f"        tables={{{tables}}}, slice_rows={case.slice_rows}, buffer={case.buffer})",
        "",
    ]
    lines += [f"e, out = engine({layouts(case, query, 1)!r}), []"]
    starts = 1
    for step in case.steps:
        if isinstance(step, Push):
            name = step.source
            lines.append(f"out += e.push({name!r}, rows({name}, {name}_rows, {list(step.rows)})).to_pylist()")
        elif isinstance(step, Advance):
            lines.append(f"out += e.advance({watermarks(case, step)!r}).to_pylist()")
        else:
            starts += 1
            lines.append(f"state = e.snapshot(); e = engine({layouts(case, query, starts)!r}); e.restore(state)")
    wanted = [r for r, _ in expected(case, oracle.answer(case))]
    lines += [
        "out += e.close().to_pylist()",
        "got = sorted((tuple(r.values()) for r in out), key=repr)",
        f"expected = sorted({wanted!r}, key=repr)",
        "print('got', got)",
        "print('expected', expected)",
        f"print('late: expected', {case.late()}, e.stats()['sources'])",
    ]
    return "\n".join(lines)


def _type(dtype: Any) -> str:
    text = str(dtype)
    if text.startswith("decimal128"):
        return f"pa.{text}"
    if text.startswith("timestamp"):
        inside = text[len("timestamp[") : -1].split(", tz=")
        return f"pa.timestamp({', '.join(map(repr, inside))})"
    return {"double": "pa.float64()", "date32[day]": "pa.date32()"}.get(text, f"pa.{text}()")
