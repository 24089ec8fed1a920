"""Heard: a relation that other cells make, as the changes they send. It keeps those that lie ahead of the frontier.

Every sender says how far it has come; the frontier is the least of them. A row that leaves one sender and enters another
at the same instant has not changed, so changes cancel here once more.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from thalweg.contract.relation import Changes
from thalweg.language.algebra import SIGN, TIME
from thalweg.relate.rows.agenda import Agenda
from thalweg.relate.rows.netting import net_changes


class Heard:
    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._agenda = Agenda(schema)

    def take(self, sent: pa.Table) -> None:
        """Changes of one sender, in the order of their times."""
        columns = [sent[name].combine_chunks() for name in self.schema.names]
        numbers = self._agenda.rows.encode_columns(columns, len(sent))
        self._agenda.add(numbers, sent[TIME].to_numpy(), sent[SIGN].to_numpy())

    def advance(self, frontier: int) -> Changes:
        numbers, time, sign = self._agenda.due(frontier)
        changes = net_changes(self._agenda.rows, numbers, time, sign)
        self._agenda.drop(numbers)
        return changes

    def size(self) -> int:
        return len(self._agenda)

    @property
    def nbytes(self) -> int:
        return self._agenda.nbytes

    def snapshot(self) -> dict[str, bytes]:
        return self._agenda.snapshot()

    def restore(self, parts: Mapping[str, bytes]) -> None:
        self._agenda.restore(parts)
