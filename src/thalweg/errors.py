"""One family of errors: what was expected, what was found, where, and what to do next.

Every error a user can cause is a ThalwegError. The message is complete on its own, because Spark shows only the text of
an exception from a Python worker.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class ThalwegError(Exception):
    """Root of all errors raised on purpose.

    >>> print(ThalwegError("no column 'dest'", hint="did you mean 'dst'?"))
    no column 'dest'
      hint: did you mean 'dst'?
    """

    def __init__(self, message: str, *, hint: str | None = None, where: str | None = None) -> None:
        self.message = message
        self.hint = hint
        self.where = where
        lines = [message]
        if where:
            lines.extend("  " + line for line in where.splitlines())
        if hint:
            lines.append(f"  hint: {hint}")
        super().__init__("\n".join(lines))


class DefinitionError(ThalwegError, ValueError):
    """The query can't be built: a bad argument, an unknown name, a contradiction."""


class QueryError(DefinitionError):
    """The SQL text can't be parsed or is not supported; `where` underlines the place."""

    missing: str = ""
    """A name in FROM that stands for nothing that was given."""


class PredicateError(ThalwegError):
    """A predicate raised on a row that passes all others, or returned no valid verdict."""


class AggregateError(ThalwegError):
    """A value made of several rows can't be computed: a sum overflows, a scalar subquery has several rows."""


class CheckpointError(ThalwegError):
    """The checkpoint of a restarted query belongs to a different query."""


class ConnectorError(ThalwegError):
    """A source or sink can't be reached, or does not hold what the query was promised."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint that names the nearest known names, or lists them all.

    >>> did_you_mean("dest", ["src", "dst", "data"])
    "did you mean 'dst'?"
    >>> did_you_mean("zzz", ["src", "dst"])
    "known are 'src', 'dst'"
    """
    names = list(known)
    lowered = {n.lower(): n for n in names}
    close = [lowered[n] for n in get_close_matches(name.lower(), list(lowered), n=2, cutoff=0.6)]
    if close:
        return "did you mean " + " or ".join(f"'{n}'" for n in close) + "?"
    return "known are " + ", ".join(f"'{n}'" for n in names[:20]) if names else "there are none"
