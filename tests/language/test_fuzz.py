"""Whatever the text, the outcome is a Query or a QueryError: never another exception, never an endless loop."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from thalweg.errors import QueryError
from thalweg.language import Query, Source
from thalweg.language.algebra import Bound
from thalweg.language.bind import bind
from thalweg.language.show import show

SEED = 7
FIXTURES = Path(__file__).parent / "fixtures"
QUERIES = [
    re.split(r"^-- (?:gives|fails)\n", body.partition("\n")[2], flags=re.M)[0]
    for path in sorted(FIXTURES.glob("*.sql"))
    for body in re.split(r"^-- case: ", path.read_text(), flags=re.M)[1:]
]
WORDS = sorted({w for q in QUERIES for w in re.findall(r"\w+|[^\w\s]", q)})


def outcome(text: str, sources: dict[str, Source], functions: dict[str, Any]) -> Query | Bound | QueryError:
    try:
        bound = bind(text, sources, functions)
        assert show(bound)
        return bound.plain or bound
    except QueryError as error:
        return error


def mutated(draw: random.Random) -> str:
    """A query of the fixtures with some of its words dropped, doubled, swapped or replaced."""
    words = re.findall(r"\s+|\w+|[^\w\s]", draw.choice(QUERIES))
    for _ in range(draw.randint(1, 2)):
        if not words:
            break
        i = draw.randrange(len(words))
        match draw.randrange(5):
            case 0:
                del words[i]
            case 1:
                words.insert(i, draw.choice(WORDS))
            case 2:
                words[i] = draw.choice(WORDS)
            case 3:
                words[i:] = words[: draw.randrange(len(words))]
            case _:
                j = draw.randrange(len(words))
                words[i], words[j] = words[j], words[i]
    return "".join(words)


def test_mutated_queries(sources: dict[str, Source], functions: dict[str, Any]) -> None:
    draw = random.Random(SEED)
    good = bad = 0
    for _ in range(3000):
        text = mutated(draw)
        try:
            good, bad = (
                (good + 1, bad) if not isinstance(outcome(text, sources, functions), QueryError) else (good, bad + 1)
            )
        except Exception as error:
            pytest.fail(f"seed {SEED}: {type(error).__name__} {error} on {text!r}")
    assert good > 40
    assert bad > 100


def test_soup_of_words(sources: dict[str, Source], functions: dict[str, Any]) -> None:
    draw = random.Random(SEED)
    for _ in range(2000):
        head = draw.choice(["", "SELECT ", "SELECT * FROM S ", "SELECT * FROM S [", "SELECT A FROM S WHERE "])
        text = head + " ".join(draw.choice(WORDS) for _ in range(draw.randint(0, 14)))
        try:
            outcome(text, sources, functions)
        except Exception as error:
            pytest.fail(f"seed {SEED}: {type(error).__name__} {error} on {text!r}")


@seed(SEED)
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    head=st.sampled_from(["", "SELECT ", "SELECT * FROM S WHERE A = ", "SELECT 1 FROM S ["]), tail=st.text(max_size=40)
)
def test_any_text(head: str, tail: str, sources: dict[str, Source], functions: dict[str, Any]) -> None:
    outcome(head + tail, sources, functions)


@pytest.mark.parametrize("depth", [20, 5000])
def test_deep_nesting(depth: int, sources: dict[str, Source], functions: dict[str, Any]) -> None:
    nested = f"SELECT A FROM S WHERE {'(' * depth}A > 1{')' * depth}"
    found = outcome(nested, sources, functions)
    assert isinstance(found, Query if depth < 100 else QueryError)


def test_long_chains(sources: dict[str, Source], functions: dict[str, Any]) -> None:
    found = outcome("SELECT A FROM S WHERE " + " AND ".join(f"A <> {i}" for i in range(2000)), sources, functions)
    assert isinstance(found, Query)
    assert len(found.block.filters) == 2000
    found = outcome("SELECT A FROM S WHERE " + " OR ".join(f"A = {i}" for i in range(2000)), sources, functions)
    assert isinstance(found, Query)
    assert found.block.filters[0].evaluate is not None
    assert found.block.filters[0].evaluate({"A": pa.array([1999, 2000, None])}).to_pylist() == [True, False, None]
