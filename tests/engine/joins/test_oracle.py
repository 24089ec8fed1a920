"""The judges are judged: DuckDB against nested loops, and the harness against engines that are wrong on purpose."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import duckdb
import pytest
from tests.engine.joins import reference
from tests.engine.joins.check import Mismatch, check
from tests.engine.joins.oracle import TooLarge, shortcut
from tests.engine.joins.verdict import expected, verdict

from thalweg.testing.joincase import Advance, Push
from thalweg.testing.joinpredicates import Call, Compare, aliases
from thalweg.testing.joinrun import run
from thalweg.testing.joins import POLICIES, make_case

MOST = 20_000
"""Combinations that nested loops go through in a reasonable time."""


def small_cases(count, first=1_000_000):
    made, seed = 0, first
    while made < count:
        case = make_case(seed)
        seed += 1
        if math.prod(max(1, len(case.source(i.source).rows)) for i in case.inputs) <= MOST:
            made += 1
            yield case


def test_duckdb_agrees_with_nested_loops(oracle):
    results = 0
    for case in small_cases(150):
        try:
            answer = oracle.answer(case)
        except TooLarge:
            continue
        assert Counter(answer) == Counter(reference.answer(case)), f"seed {case.seed}\n{case.text}"
        results += len(answer)
    assert results > 1_000


def test_the_shortcut_says_the_same(oracle, monkeypatch):
    """What is used for long cases against the definition, on short ones."""
    cases = [c for c in map(make_case, range(1_100_000, 1_100_150)) if any(i.window for i in c.inputs)]
    answers = [Counter(oracle.answer(c, 10**6)) for c in cases]
    monkeypatch.setattr("tests.engine.joins.oracle.definition", shortcut)
    assert [k for k, c in enumerate(cases) if Counter(oracle.answer(c, 10**6)) != answers[k]] == []


def equalities(case):
    """For each two inputs, how many columns of them must be equal."""
    return Counter(
        aliases(p) for p in case.predicates if isinstance(p, Compare) and p.op == "=" and len(aliases(p)) == 2
    )


def test_cases_cover_what_they_promise():
    """A generator that stops making a kind of case must not go unnoticed."""
    seen = Counter()
    for seed in range(600):
        case = make_case(seed)
        seen[f"inputs {len(case.inputs)}"] += 1
        seen[case.shape] += 1
        seen[case.policy] += 1
        seen[case.layout] += 1
        seen.update({i.window.kind if i.window else "table" for i in case.inputs})
        seen.update({str(f.type) for s in case.sources for f in s.schema})
        seen.update({type(p).__name__ for p in case.predicates})
        seen.update({type(s).__name__ for s in case.steps})
        seen["self-join"] += len(case.sources) < len(case.inputs)
        seen["late"] += any(case.late().values())
        seen["empty batch"] += any(isinstance(s, Push) and not s.rows for s in case.steps)
        seen["null"] += any(v is None for s in case.sources for r in s.rows for v in r)
        seen["no time"] += any(case.timeless().values())
        seen["no row"] += any(not s.rows for s in case.sources)
        seen["one row"] += any(len(s.rows) == 1 for s in case.sources)
        seen["batch of one"] += any(isinstance(s, Push) and len(s.rows) == 1 for s in case.steps)
        seen["one partial result at a time"] += case.buffer == 1
        seen["two-column key"] += any(n > 1 for n in equalities(case).values())
        seen["residual over three inputs"] += any(len(aliases(p)) > 2 for p in case.predicates)
        seen["function over two inputs"] += any(isinstance(p, Call) and len(aliases(p)) > 1 for p in case.predicates)
        seen["only tables"] += all(i.window is None for i in case.inputs)
        seen["JOIN ... ON"] += case.joined
        seen["WINDOW"] += any(i.inherited for i in case.inputs)
        times = [[t for t in s.times if t is not None] for s in case.sources]
        seen["ties"] += any(len(set(t)) < len(t) for t in times)
        seen["disorder"] += any(t != sorted(t) for t in times)
    promised = (
        *(f"inputs {n}" for n in range(2, 7)), "chain", "star", "clique", "cycle", "tree", "cross",
        *POLICIES, "hash", "bits", "mixed", "range", "now", "unbounded", "rows",
        "partition", "table", "int32", "int64", "string", "decimal128(10, 2)", "decimal128(12, 3)",
        "decimal128(25, 2)", "date32[day]", "double", "Compare", "Between", "Among", "Call", "Not", "Or", "Push", "Advance",
        "Restart", "self-join", "late", "empty batch", "null", "ties", "disorder", "no time", "no row", "one row", "batch of one",
        "one partial result at a time", "two-column key", "residual over three inputs", "function over two inputs",
        "only tables", "JOIN ... ON", "WINDOW",
    )  # fmt: skip
    assert [p for p in promised if seen[p] < 5] == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("'nan'::DOUBLE = 'nan'::DOUBLE", True),
        ("'nan'::DOUBLE > 'inf'::DOUBLE", True),
        ("-0.0::DOUBLE = 0.0::DOUBLE", True),
        ("NULL = NULL", None),
        ("'B' < 'a'", True),
        ("1.50::DECIMAL(10, 2) = 1.500::DECIMAL(12, 3)", True),
    ],
)
def test_duckdb_shares_sparks_rules(text, says):
    assert duckdb.sql(f"SELECT {text}").fetchall() == [(says,)]


def with_results(oracle, count, least=3):
    found, seed = [], 0
    while len(found) < count:
        case = make_case(seed)
        seed += 1
        try:
            answer = oracle.answer(case)
        except TooLarge:
            continue
        if least <= len(answer) <= 500:
            found.append((case, answer))
    return found


def test_a_lost_a_doubled_and_a_late_result_are_noticed(oracle):
    for case, answer in with_results(oracle, 5):
        assert verdict(case, answer) is None
        assert "1 missing" in verdict(case, [*answer, answer[0]])
        assert "1 too many" in verdict(case, answer[1:])


def test_a_result_that_comes_too_late_is_noticed(oracle, monkeypatch):
    case, answer = next((c, a) for c, a in with_results(oracle, 20) if not c.ordered and c.seed % 4)

    def hold_back(case, **options):
        outcome = run(case, **options)
        return replace(outcome, steps=(len(case.steps),) * len(outcome.steps))

    monkeypatch.setattr("tests.engine.joins.verdict.run", hold_back)
    assert "steps" in verdict(case, answer)


def test_a_failing_case_is_made_small(oracle, monkeypatch):
    """An engine that loses every result with row 3 of the first source is cornered to a handful of rows."""

    def forgetful(case, **options):
        outcome = run(case, **options)
        kept = [k for k, row in enumerate(outcome.rows) if row[0] != 3]
        return replace(
            outcome, rows=tuple(outcome.rows[k] for k in kept), steps=tuple(outcome.steps[k] for k in kept),
            times=tuple(outcome.times[k] for k in kept) if outcome.times else (),
        )  # fmt: skip

    case = next(
        c for c, a in with_results(oracle, 60, least=10)
        if c.select[0].column == "id" and any(r[0] == 3 for r in a) and len(c.inputs) == 3
    )  # fmt: skip
    monkeypatch.setattr("tests.engine.joins.verdict.run", forgetful)
    with pytest.raises(Mismatch) as caught:
        check(case, oracle)
    text = str(caught.value)
    assert f"seed {case.seed}" in text
    script = text[text.index("import datetime") :]
    compile(script, "reproduction", "exec")
    assert script.count("    3: (3,") >= 1
    assert sum(line.strip()[:1].isdigit() for line in script.splitlines()) <= 6


def test_the_moment_of_a_result_is_when_it_is_complete(oracle):
    """Without row windows a result comes with its last tuple; with them, with the watermark that passes it."""
    pushed = waited = 0
    for case, answer in with_results(oracle, 60):
        for _, step in expected(case, answer):
            kind = type(case.steps[step]) if step < len(case.steps) else None
            if case.ordered:
                assert kind in (Advance, None)
                waited += 1
            elif any(i.window for i in case.inputs):
                assert kind is Push
                pushed += 1
    assert pushed
    assert waited
