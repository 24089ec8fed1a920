"""Conformance: what every policy must keep to, ours and those of others, as named checks that can fail.

    for check in thalweg.testing.checks(MyPolicy):
        check()

A check drives fresh policies along courses of filters and of joins (`courses.py`) and raises AssertionError with what
was broken. Nothing is timed; a check has the same outcome on every machine.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from thalweg import optimize
from thalweg.testing.courses import Make
from thalweg.testing.policychecks import able, keeping, reproducing, routing, surviving, telling

SUBJECTS = (routing, reproducing, keeping, surviving, telling, able)
CHECKS: tuple[Callable[[Make], None], ...] = tuple(check for subject in SUBJECTS for check in subject.CHECKS)


@dataclass(frozen=True)
class Check:
    """One thing a policy must keep to; call it to find out."""

    function: Callable[[Make], None]
    make: Make
    policy: str

    @property
    def __name__(self) -> str:
        return self.function.__name__

    @property
    def about(self) -> str:
        return inspect.getdoc(self.function) or ""

    def __call__(self) -> None:
        try:
            self.function(self.make)
        except Exception as error:
            error.add_note(f"policy {self.policy} fails the check {self.__name__}: {self.about}")
            raise

    def __repr__(self) -> str:
        return f"Check({self.__name__}, {self.policy})"


def checks(policy: str | Make) -> Iterator[Check]:
    """All checks for a policy, given by its registered name or by its class.

    >>> from thalweg.optimize.orders.written import Written
    >>> sum(check() is None for check in checks(Written)) == len(CHECKS)
    True
    """
    make: Make = partial(optimize.make, policy) if isinstance(policy, str) else policy
    label = policy if isinstance(policy, str) else getattr(policy, "__name__", repr(policy))
    for function in CHECKS:
        yield Check(function, make, label)
