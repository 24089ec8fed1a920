"""What all blocks of one query share: its text, sources and functions, and the names that are taken.

Invariant: no two inputs of a query have the same alias, wherever they stand, and no two computed columns the same name.
So two nodes can be joined without renaming, and a correlated condition can mention columns of both sides.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from thalweg.errors import DefinitionError
from thalweg.language.functions import Signature, declared, signature
from thalweg.language.query import Column, Source
from thalweg.language.text.parse import Parsed

_LONGEST = 60
"""Characters of a computed column's name, which only explain shows."""
_METHODS = ("add", "remove", "value", "merge")


class World:
    """One query while it is bound."""

    def __init__(
        self, parsed: Parsed, sources: Mapping[str, Source], functions: Mapping[str, Callable[..., Any]]
    ) -> None:
        self.parsed = parsed
        self.sources = sources
        self.functions = functions
        used = parsed.functions.items()
        self.called = {s: (n, signature(functions[n])) for s, n in used if not is_aggregate(functions[n])}
        """By stand-in: the name in the query, and how to call it."""
        self.aggregates = {s: (n, _result(n, functions[n])) for s, n in used if is_aggregate(functions[n])}
        """By stand-in: the name in the query, and the type of the value."""
        self.windows: set[str] = set()
        """Functions that are used as windows."""
        self.places: set[int] = set()
        """Where the entries of FROM start, as far as they are bound."""
        self._taken: set[str] = set()

    def alias(self, wanted: str) -> str:
        """An alias that no other input of the query has."""
        return self._unique(wanted)

    def name(self, wanted: str) -> str:
        """A name for a computed column that no other column has."""
        return self._unique(wanted if len(wanted) <= _LONGEST else wanted[: _LONGEST - 1] + "…")

    def _unique(self, wanted: str) -> str:
        name, k = wanted, 1
        while name.lower() in self._taken:
            k += 1
            name = f"{wanted}_{k}"
        self._taken.add(name.lower())
        return name

    @property
    def used(self) -> dict[str, Callable[..., Any]]:
        """The functions that the query calls."""
        names = dict.fromkeys([*self.parsed.functions.values(), *sorted(self.windows)])
        return {n: self.functions[n] for n in names}

    def call(self, stand_in: str) -> tuple[str, Signature] | None:
        return self.called.get(stand_in)


def is_aggregate(function: Any) -> bool:
    """Whether a user's object makes aggregates: a class with add, remove, value and merge."""
    return inspect.isclass(function) and callable(getattr(function, "add", None)) and hasattr(function, "value")


def _result(name: str, made: Any) -> pa.DataType:
    missing = [m for m in _METHODS if not callable(getattr(made, m, None))]
    if missing:
        raise DefinitionError(f"the aggregate '{name}' has no method {missing[0]}",
                              hint=f"an aggregate has {', '.join(_METHODS)}")  # fmt: skip
    found = declared(made.value)
    if found is None:
        raise DefinitionError(f"what the aggregate '{name}' gives is not known",
                              hint="annotate value: def value(self) -> float")  # fmt: skip
    return found


def label(column: Column) -> str:
    """A column's name in the schema of a node."""
    return str(column) if column.input else column.name
