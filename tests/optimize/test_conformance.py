"""Every registered policy passes every check, by its name and over pipelines of every kind."""

from __future__ import annotations

import pytest

from thalweg import optimize
from thalweg.optimize.orders.agreedy import AGreedy
from thalweg.testing import Check, checks

EVERY = [check for name in optimize.names() for check in checks(name)]


@pytest.mark.parametrize("check", EVERY, ids=lambda c: f"{c.policy}-{c.__name__}")
def test_conforms(check: Check) -> None:
    check()


@pytest.mark.parametrize("check", [c for c in checks(AGreedy) if "allowed" in c.__name__], ids=lambda c: c.__name__)
def test_the_filter_policy_itself_keeps_to_allowed_routes_of_stems(check: Check) -> None:
    # By name, `agreedy` is another class where there are stems.
    check()


def test_checks_are_named_and_told_apart() -> None:
    names = [c.__name__ for c in checks("written")]
    assert len(set(names)) == len(names) >= 20
    assert all(c.about for c in checks("written"))
    assert repr(next(checks("written"))) == "Check(is_a_policy, written)"
    assert [c.policy for c in checks(AGreedy)] == ["AGreedy"] * len(names)


def test_an_unknown_name_is_refused_with_a_hint() -> None:
    from thalweg.errors import DefinitionError

    with pytest.raises(DefinitionError, match="did you mean 'agreedy'"):
        next(iter(checks("agredy")))()
