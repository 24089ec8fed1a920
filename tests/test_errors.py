"""The error family: complete messages, one root, and hints that name the nearest name."""

from __future__ import annotations

import pickle

import pytest

from thalweg.errors import (
    CheckpointError,
    ConnectorError,
    DefinitionError,
    PredicateError,
    QueryError,
    ThalwegError,
    did_you_mean,
)
from thalweg.execute.filters import NoVerdict, WrongCount

FAMILY = [DefinitionError, QueryError, PredicateError, CheckpointError, ConnectorError, NoVerdict, WrongCount]


@pytest.mark.parametrize("kind", FAMILY)
def test_one_root(kind: type[ThalwegError]) -> None:
    with pytest.raises(ThalwegError) as caught:
        raise kind("a is b", hint="make it c", where="SELECT a\n       ^")
    assert str(caught.value) == "a is b\n  SELECT a\n         ^\n  hint: make it c"
    assert (caught.value.message, caught.value.hint, caught.value.where) == (
        "a is b",
        "make it c",
        "SELECT a\n       ^",
    )


def test_a_definition_error_is_a_value_error() -> None:
    # What callers of other libraries catch for a bad argument.
    assert issubclass(DefinitionError, ValueError)
    assert issubclass(QueryError, DefinitionError)
    assert not issubclass(PredicateError, ValueError)


def test_only_what_is_known_is_said() -> None:
    assert str(ThalwegError("short")) == "short"
    assert str(ThalwegError("short", hint="h")) == "short\n  hint: h"


@pytest.mark.parametrize("kind", FAMILY)
def test_travels_between_processes(kind: type[ThalwegError]) -> None:
    error = kind("a is b", hint="make it c", where="here")
    twin = pickle.loads(pickle.dumps(error))
    assert (type(twin), str(twin), twin.hint, twin.where) == (kind, str(error), "make it c", "here")


@pytest.mark.parametrize(
    ("name", "known", "hint"),
    [
        ("dest", ["src", "dst", "data"], "did you mean 'dst'?"),
        ("DST", ["src", "dst"], "did you mean 'dst'?"),
        ("agredy", ["agreedy", "auto"], "did you mean 'agreedy'?"),
        ("zzz", ["src", "dst"], "known are 'src', 'dst'"),
        ("x", [], "there are none"),
    ],
)
def test_did_you_mean(name: str, known: list[str], hint: str) -> None:
    assert did_you_mean(name, known) == hint


def test_did_you_mean_keeps_the_spelling_of_the_known() -> None:
    assert did_you_mean("tailnum", ["TailNum", "x"]) == "did you mean 'TailNum'?"


def test_a_long_list_is_cut() -> None:
    assert did_you_mean("?", [f"column_number_{i}" for i in range(100)]).count("'column") == 20
