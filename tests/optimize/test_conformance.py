"""Every registered policy passes every check, by its name, for filters and joins of every kind."""

from __future__ import annotations

import pytest

from thalweg import optimize
from thalweg.errors import DefinitionError
from thalweg.optimize.orders.written import Written
from thalweg.testing import Check, checks

EVERY = [check for name in optimize.names() for check in checks(name)]


@pytest.mark.parametrize("check", EVERY, ids=lambda c: f"{c.policy}-{c.__name__}")
def test_conforms(check: Check) -> None:
    check()


def test_checks_are_named_and_told_apart() -> None:
    names = [c.__name__ for c in checks("written")]
    assert len(set(names)) == len(names) >= 20
    assert all(c.about for c in checks("written"))
    assert repr(next(checks("written"))) == "Check(is_a_policy, written)"
    assert [c.policy for c in checks(Written)] == ["Written"] * len(names)


def test_an_unknown_name_is_refused_with_a_hint() -> None:
    with pytest.raises(DefinitionError, match="did you mean 'agreedy'"):
        next(iter(checks("agredy")))()
