"""Makes a failing query case smaller: drop rows, steps and parts of the query while the same thing stays wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

from tests.engine.queries.oracle import QueryOracle
from tests.engine.queries.verdict import verdict

from thalweg.language.query import Window
from thalweg.testing.joincase import Push
from thalweg.testing.querycase import Both, Either, From, QueryCase, Select, nodes


def shrink(case: QueryCase, oracle: QueryOracle, wrong: str, *, rounds: int = 300) -> tuple[QueryCase, str]:
    """The smallest case found in a number of tries, and what is wrong with it."""
    spent, again = 0, True
    while again and spent < rounds:
        again = False
        for smaller in _smaller(case):
            spent += 1
            if spent > rounds:
                break
            try:
                why = verdict(smaller, oracle)
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
    told = [line for line in wrong.splitlines() if line and not line.startswith(" ")]
    return told[-1].split(":")[0]


def _smaller(case: QueryCase) -> Iterator[QueryCase]:
    for query in _variants(case.query):
        read = {f.source for f in nodes(query, From) if f.source}
        steps = tuple(s for s in case.steps if not isinstance(s, Push) or s.source in read)
        sources = tuple(s for s in case.sources if s.name in read)
        if len(sources) == len(case.sources):
            yield replace(case, query=query)
        elif all(not hasattr(s, "watermarks") or s.watermarks is None for s in steps):
            yield replace(case, query=query, steps=steps, sources=sources)
    for k, step in enumerate(case.steps):
        yield replace(case, steps=case.steps[:k] + case.steps[k + 1 :])
        if isinstance(step, Push):
            for r in range(len(step.rows)):
                fewer = Push(step.source, step.rows[:r] + step.rows[r + 1 :])
                yield replace(case, steps=(*case.steps[:k], fewer, *case.steps[k + 1 :]))
    for source in case.sources:
        if source.time is None:
            for r in range(len(source.rows)):
                fewer_rows = replace(source, rows=source.rows[:r] + source.rows[r + 1 :])
                yield replace(case, sources=tuple(fewer_rows if s is source else s for s in case.sources))
    for simpler in (replace(case, policy="written"), replace(case, slice_rows=1024, buffer=1 << 14)):
        if simpler != case:
            yield simpler


def _variants(value: Any) -> Iterator[Any]:
    """The tree without one of its parts."""
    if isinstance(value, Both):
        yield value.left
        yield value.right
    if isinstance(value, Either):
        yield value.one
    if isinstance(value, From) and value.window is not None and value.window.kind != "unbounded":
        yield replace(value, window=Window("unbounded"))
    if isinstance(value, Select):
        for name, least in (("where", 0), ("joins", 0), ("items", 1)):
            parts = getattr(value, name)
            for k in range(len(parts)):
                if len(parts) > least:
                    yield replace(value, **{name: parts[:k] + parts[k + 1 :]})
        if value.having:
            yield replace(value, having="")
    if is_dataclass(value) and not isinstance(value, Window):
        for f in fields(value):
            inner = getattr(value, f.name)
            if isinstance(inner, tuple):
                for k, part in enumerate(inner):
                    for smaller in _variants(part):
                        yield replace(value, **{f.name: (*inner[:k], smaller, *inner[k + 1 :])})  # type: ignore[type-var]
            elif is_dataclass(inner):
                for smaller in _variants(inner):
                    yield replace(value, **{f.name: smaller})  # type: ignore[type-var]


def script(case: QueryCase) -> str:
    """A case as text: everything that is needed to run it by hand."""
    lines = [f"text: {case.text}", f"policy {case.policy}, slices of {case.slice_rows}, buffer {case.buffer}"]
    for source in case.sources:
        if source.time is None:
            lines.append(f"table {source.name}: {source.rows}")
        else:
            lines.append(f"stream {source.name} (lateness {source.lateness}): {source.schema.names}")
    for step in case.steps:
        rows = [case.source(step.source).rows[r] for r in step.rows] if isinstance(step, Push) else ""
        lines.append(f"  {step} {rows}")
    return "\n".join(lines)
