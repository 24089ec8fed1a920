"""Leaves: the join blocks of one query, each with an engine of its own, and what they know and decide together.

A batch goes to every block that reads its source, and one watermark rule moves all of them. Inputs are named by their
aliases; where two blocks use one alias, the later block's gets its number: `a`, `a#2`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from thalweg.contract.monitor import MakeMonitor
from thalweg.contract.relation import Closings, Deltas, DeltaSink
from thalweg.engine.block import BlockEngine
from thalweg.engine.flow import MakePolicy
from thalweg.engine.sources import Feed, Watermarks
from thalweg.engine.steering import Steering
from thalweg.errors import DefinitionError, did_you_mean
from thalweg.execute.meter import Meter
from thalweg.language.algebra import Bound, Leaf
from thalweg.language.durations import Duration
from thalweg.language.query import Query
from thalweg.optimize import schedules
from thalweg.plan import Event, Plan
from thalweg.plan.layout import Layout
from thalweg.profile.prices import Prices
from thalweg.state.times import PER_SECOND, Clock, tick_of

if TYPE_CHECKING:
    from thalweg.contract.explanation import Explanation
    from thalweg.engine.counts import ByClass
    from thalweg.optimize.caches.tuner import CacheTuner
    from thalweg.optimize.indexes.tuner import IndexTuner, IndexView
    from thalweg.plan.reason import Fact
    from thalweg.relate.instants import Ticks

RECORD = "tree"
"""The part of a snapshot that says what the state of a tree belongs to."""


@dataclass(frozen=True)
class Options:
    """How every block of a query runs. `Engine` describes them; what is given by input uses the names of this query."""

    policy: str | MakePolicy
    seed: int
    index: str | Layout | Mapping[str, Layout | str] | IndexTuner
    tables: Mapping[str, pa.Table]
    prefiltered: bool
    slice_rows: int
    buffer: int
    meters: Mapping[str, Meter]
    prices: Prices | None
    monitors: Sequence[MakeMonitor]
    caches: str | CacheTuner
    cache_bytes: int | None

    def block(self, query: Query, names: Mapping[str, str], number: int, tick: str, sink: DeltaSink) -> BlockEngine:
        """The engine of a block."""
        index = self.index
        if isinstance(index, Mapping):
            index = {alias: index[name] for alias, name in names.items() if name in index}
        elif number and not isinstance(index, str | Layout):
            raise DefinitionError("an index tuner watches one join block", hint="pass its name: each block makes one")
        if number and not isinstance(self.caches, str):
            raise DefinitionError("a cache tuner watches one join block", hint="pass its name: each block makes one")
        read = {i.source for i in query.inputs}
        return BlockEngine(
            query, policy=self.policy, seed=self.seed + number, index=index, output="select",
            tables={name: table for name, table in self.tables.items() if name in read}, prefiltered=self.prefiltered,
            slice_rows=self.slice_rows, buffer=self.buffer,
            meters={alias: self.meters[name] for alias, name in names.items() if name in self.meters},
            prices=self.prices, monitors=self.monitors, deltas=sink, tick=tick, caches=self.caches,
            cache_bytes=self.cache_bytes,
        )  # fmt: skip


class Tee:
    """Hands deltas to several sinks."""

    def __init__(self) -> None:
        self.sinks: list[DeltaSink] = []

    def opened(self, deltas: Deltas) -> None:
        for sink in self.sinks:
            sink.opened(deltas)

    def closed(self, closings: Closings) -> None:
        for sink in self.sinks:
            sink.closed(closings)


class Leaves:
    """The blocks of a query."""

    def __init__(self, query: Bound, options: Options, idle: Mapping[str, Duration] | None) -> None:
        leaves = self.leaves = query.leaves
        self.scheduler = schedules.of(options.policy if isinstance(options.policy, str) else "", options.seed)
        self.names = list(input_names(leaves))
        """For each block: by alias, the name of the input."""
        self.tick, self.scale = times_of(query)
        self.tees = [Tee() for _ in leaves]
        made = zip(leaves, self.names, self.tees, strict=True)
        self.blocks = tuple(
            options.block(leaf.query, names, k, self.tick, tee) for k, (leaf, names, tee) in enumerate(made)
        )
        groups: dict[str, list[Feed]] = {}
        for block in self.blocks:
            for feed in block.sources.streams:
                groups.setdefault(feed.name, []).append(feed)
        self.clocks = Watermarks(groups)
        self.clocks.allow_idle(idle, PER_SECOND[self.tick] // 10**6)
        dispatches = {
            names[s.alias]: s.dispatch
            for block, names in zip(self.blocks, self.names, strict=True)
            for s in block.stages
            if s.dispatch is not None
        }
        self.steering = Steering(dispatches)

    # Data in

    def readers(self, source: str) -> list[BlockEngine]:
        """The blocks that read a source."""
        readers = [b for b in self.blocks if source in b.feeds]
        if not readers:
            known = list(dict.fromkeys(name for b in self.blocks for name in b.feeds))
            raise DefinitionError(f"the query reads no source '{source}'", hint=did_you_mean(source, known))
        return readers

    def push(self, source: str, batch: pa.RecordBatch | pa.Table) -> None:
        for block in self.readers(source):
            block.push(source, batch, into=_drop)

    def move_on(self) -> None:
        """Do what the watermarks allow by now."""
        for block in self.blocks:
            if block.shape.streams:
                block.move_on(_drop)

    def begin(self) -> None:
        """Tables are complete: the blocks that read nothing else give what they have."""
        for block in self.blocks:
            if not block.shape.streams:
                block.close(into=_drop)

    def close(self) -> None:
        self.clocks.end()
        for block in self.blocks:
            block.close(into=_drop)

    # What is known and decided

    def _each(self) -> Iterator[tuple[BlockEngine, Mapping[str, str]]]:
        return zip(self.blocks, self.names, strict=True)

    def _merged(self, told: Callable[[BlockEngine], Mapping[str, Any]]) -> dict[str, Any]:
        """What blocks tell by input or by stem, under the names of this query."""
        return {_renamed(k, names): v for block, names in self._each() for k, v in told(block).items()}

    def stats(self) -> dict[str, Any]:
        blocks = [block.stats() for block in self.blocks]
        sources: dict[str, Any] = {}
        for told in blocks:
            for name, counts in told["sources"].items():
                known = sources.setdefault(name, counts)
                known["waiting"] = max(known["waiting"], counts["waiting"])
        inputs = self._merged(lambda block: block.stats()["inputs"])
        return {"batches": max((told["batches"] for told in blocks), default=0), "sources": sources, "inputs": inputs}

    def needed(self) -> dict[str, int]:
        return self._merged(BlockEngine.needed)

    def explain(self) -> dict[str, Explanation]:
        return self._merged(BlockEngine.explain)

    def findings(self) -> dict[str, dict[str, Mapping[str, Fact]]]:
        return self._merged(BlockEngine.findings)

    def classes(self) -> dict[str, ByClass]:
        return self._merged(BlockEngine.classes)

    def indexes(self) -> dict[str, IndexView]:
        return self._merged(BlockEngine.indexes)

    def plan(self) -> Plan:
        plans = [block.plan() for block in self.blocks]
        parts: dict[str, dict[str, Any]] = {}
        for part in ("routes", "layouts", "caches", "purges"):
            parts[part] = {
                _renamed(where, names): decided
                for plan, names in zip(plans, self.names, strict=True)
                for where, decided in getattr(plan, part).items()
            }
        return Plan(
            sum(p.version for p in plans), **parts, schedule={"inputs": self.scheduler.name}, pinned=frozenset(self.steering.frozen)
        )  # fmt: skip

    def events(self) -> list[Event]:
        return [_placed(event, names) for block, names in self._each() for event in block.events()]

    # State

    def snapshot(self) -> dict[str, bytes]:
        return {f"block/{k}/{name}": part for k, b in enumerate(self.blocks) for name, part in b.snapshot().items()}

    def restore(self, parts: Mapping[str, bytes]) -> None:
        for k, block in enumerate(self.blocks):
            block.restore(under(f"block/{k}/", parts))


def times_of(query: Bound) -> tuple[Ticks, int]:
    """What the engine's times count; and ticks in a time that is a number or a date: where streams count differently, a
    time is a timestamp."""
    if query.sent is not None:
        return query.sent.ticks, query.sent.per
    streams = [i.spec for leaf in query.leaves for i in leaf.query.streams]
    tick = tick_of(streams)
    return tick, max((Clock(spec, tick).scale for spec in streams), default=1)


def under(prefix: str, parts: Mapping[str, bytes]) -> dict[str, bytes]:
    """The parts whose names begin so, without that beginning."""
    return {name[len(prefix) :]: part for name, part in parts.items() if name.startswith(prefix)}


def input_names(leaves: Sequence[Leaf]) -> Iterator[dict[str, str]]:
    used: set[str] = set()
    for k, leaf in enumerate(leaves):
        names = {i.alias: f"{i.alias}#{k + 1}" if i.alias in used else i.alias for i in leaf.query.inputs}
        used |= set(names.values())
        yield names


def _renamed(where: str, names: Mapping[str, str]) -> str:
    """The name of an input, or of a stem that several share."""
    return "+".join(names.get(alias, alias) for alias in where.split("+"))


def _placed(event: Event, names: Mapping[str, str]) -> Event:
    if event.change is None:
        return event
    where = _renamed(event.change.where, names)
    return event if where == event.change.where else replace(event, change=replace(event.change, where=where))


def _drop(batch: pa.RecordBatch) -> None:
    """Results leave as deltas."""
