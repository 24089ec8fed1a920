"""An entry of FROM: a source under an alias with its window, or a query whose rows are known under an alias."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from thalweg.language.algebra import Node
from thalweg.language.query import Column, Input

if TYPE_CHECKING:
    from thalweg.language.bind.part import Part


@dataclass(eq=False)
class Entry:
    """What a block joins. `alias` is unique in the whole query, `name` is what the text calls it."""

    name: str
    alias: str
    schema: pa.Schema
    node: exp.Expr
    """Where it is written."""
    position: int = -1
    """Where its name starts in the text."""
    input: Input | None = None
    """Of a source."""
    child: Node | None = None
    """Of a query: rows whose columns are named `alias.column`."""
    merged: Mapping[str, Column] = field(default_factory=dict)
    """Of a query whose inputs joined the block around it: what its columns stand for."""
    part: Part | None = None
    """Of such a query: its inputs and conditions."""
    lone: bool = False
    """Whether it has exactly one row, so that joining it needs no condition."""
    timed: bool = False
    """Whether its last column is the time at which its rows were emitted, which * leaves out."""

    @property
    def names(self) -> list[str]:
        return list(self.schema.names)

    @property
    def starred(self) -> list[str]:
        """The columns of `alias.*`."""
        return self.names[:-1] if self.timed else self.names

    def column(self, name: str) -> Column:
        return self.merged.get(name) or Column(self.alias, name)
