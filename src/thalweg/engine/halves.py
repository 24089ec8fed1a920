"""A query in two halves, with a second shuffle between them (`optimize/split.py` says where).

The cells below run their half as any query, and send its changes and how far they have come. `UpperEngine` runs the other
half on what they send. A change is final once every sender has passed it, so the frontier is the least of theirs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from thalweg.engine.leaves import Options, times_of
from thalweg.engine.output import Sink
from thalweg.engine.tree import TreeEngine
from thalweg.errors import ThalwegError
from thalweg.language.algebra import Bound, Emit, Node, Sent
from thalweg.language.settled import settled
from thalweg.state.slice import ALWAYS, FOREVER

HEARD = "heard"


def halves(bound: Bound, node: Node, senders: int) -> tuple[Bound, Bound]:
    """What the cells up to a node run, and what those above it do."""
    columns = tuple((name, name) for name in node.schema.names)
    below = replace(bound, root=Emit(node.schema, node, "sent", columns))
    sent = Sent(node.schema, *times_of(bound), frozenset(settled(node)), senders)
    return below, bound.with_nodes({id(node): sent})


class UpperEngine(TreeEngine):
    """Runs the half above. Its sources are the senders."""

    def __init__(self, query: Bound, options: Options) -> None:
        super().__init__(query, options)
        self._come: dict[str, int] = {}
        """How far each sender has come."""
        self._ended = False

    def push(self, source: str, batch: pa.RecordBatch | pa.Table, *, into: Sink | None = None) -> pa.Table:
        """Changes of a sender, which wait until all have come that far."""
        self._check_open()
        assert self.relations is not None
        assert self.relations.heard is not None
        self.relations.heard.take(pa.table(batch))
        return self._none()

    def take_batch(
        self, tables: Mapping[str, pa.Table], *, newest: Mapping[str, int] | None = None, into: Sink | None = None
    ) -> pa.Table:
        for source in sorted(tables):
            self.push(source, tables[source])
        self._come |= newest or {}
        return self._given(into)

    def close(self, *, into: Sink | None = None) -> pa.Table:
        self._ended = True
        return super().close(into=into)

    @property
    def frontier(self) -> int:
        sent = self.query.sent
        assert sent is not None
        if self._ended or self.closed:
            return FOREVER
        if len(self._come) > sent.senders:
            raise ThalwegError(f"{len(self._come)} cells sent changes to a query that hears of {sent.senders}")
        return min(self._come.values()) if len(self._come) == sent.senders else ALWAYS

    def snapshot(self) -> dict[str, bytes]:
        return {**super().snapshot(), HEARD: json.dumps(self._come).encode()}

    def restore(self, parts: Mapping[str, bytes]) -> None:
        super().restore(parts)
        self._come = json.loads(parts[HEARD])
