"""The engine: one query's data in, its answer out. No Spark.

It is the door. A query that is nothing but a join block is run by that block's engine (`block.py`), which says what a
result is and when it comes; every other one by the engine of trees (`tree.py`).

One class: a user meets one door, so each of its methods is a question or a command to the block or tree behind it.
Its options are keyword arguments for the same reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from thalweg.contract.monitor import MakeMonitor
from thalweg.contract.relation import DeltaSink
from thalweg.contract.scheduler import Scheduler
from thalweg.engine.block import BlockEngine
from thalweg.engine.flow import MakePolicy
from thalweg.engine.leaves import Leaves, Options
from thalweg.engine.output import Kind, Sink
from thalweg.engine.sources import Watermark
from thalweg.errors import DefinitionError
from thalweg.execute.meter import Meter
from thalweg.execute.operators.stem import BUFFER
from thalweg.language.algebra import Bound
from thalweg.language.bind import bind
from thalweg.language.durations import Duration
from thalweg.language.query import Query, Source
from thalweg.plan import Event, Plan, Route
from thalweg.plan.layout import Layout
from thalweg.plan.reason import Fact
from thalweg.profile.prices import Prices
from thalweg.state.slice import ALWAYS
from thalweg.state.stem import SLICE_ROWS

if TYPE_CHECKING:
    from thalweg.contract.explanation import Explanation
    from thalweg.engine.counts import ByClass
    from thalweg.engine.tree import TreeEngine
    from thalweg.optimize.caches.tuner import CacheTuner
    from thalweg.optimize.indexes.tuner import IndexTuner, IndexView


class Engine:
    """Runs one query.

    Parameters
    ----------
    query
        SQL text, or a query that was bound before.
    sources
        What the names in FROM stand for: streams (`tw.Source(schema, time="ts")`) and tables.
    functions
        Python functions used in WHERE.
    policy
        A policy's name, or what makes a policy for a pipeline and a seed.
    index
        "hash", "bits", "scan" or a `Layout`, for all inputs or by alias; or an index tuner or its name, such as "amri":
        then layouts follow the probes. The policy "chaos" brings its own tuner.
    tables
        Contents of tables; they can also be pushed before the first row of a stream.
    idle
        By stream: how far the others may get ahead, such as "5 minutes", before a silent one no longer holds them back.
    output
        For queries that are nothing but a join: "select" (the query's own columns, if all are plain), "columns" (every
        column that the output or a predicate left to the caller needs, as `alias.column`, and the result's time), or
        None: SELECT's own columns wherever they can be computed without Spark.
    prefiltered, leave
        Whether predicates on one input without functions were applied before `push`; and whether predicates that only
        Spark can evaluate are accepted: `left` lists them, and the caller applies them to the results.
    meters
        By alias: a meter other than the real clock. Decisions on recorded costs are reproducible.
    prices
        What operations cost, other than as measured on this machine.
    monitors
        What makes a monitor for an input, by its alias; every stream gets one of each. `findings()` tells what they saw.
    scheduler
        Whose rows go first where `take_batch` brings several inputs.
    deltas
        Takes every result with its lifetime (`contract/relation.py`), beside the plain results.
    caches
        "off"; "auto": caches of partial results where they are estimated to save time; "all": every one that the routes
        in force allow; or a cache tuner. With "auto", the policy "chaos" draws caches at random.
    cache_bytes
        Bytes that caches may take together; as many as they like without it.
    """

    def __init__(
        self, query: str | Query | Bound, sources: Mapping[str, Source] | None = None, *,
        functions: Mapping[str, Callable[..., Any]] | None = None, policy: str | MakePolicy = "auto", seed: int = 0,
        index: str | Layout | Mapping[str, Layout | str] | IndexTuner = "hash",
        tables: Mapping[str, pa.Table] | None = None, idle: Mapping[str, Duration] | None = None, output: Kind | None = None,
        prefiltered: bool = False, leave: bool = False, slice_rows: int = SLICE_ROWS, buffer: int = BUFFER,
        meters: Mapping[str, Meter] | None = None, prices: Prices | None = None,
        monitors: Sequence[MakeMonitor] = (), scheduler: Scheduler | None = None,
        deltas: DeltaSink | None = None, caches: str | CacheTuner = "off", cache_bytes: int | None = None,
    ) -> None:  # fmt: skip
        computed = output is None and deltas is None and not leave
        asked = (
            bind(query, dict(sources or {}), dict(functions or {}), computed=computed)
            if isinstance(query, str)
            else query
        )
        options = Options(
            policy,
            seed,
            index,
            tables or {},
            prefiltered,
            slice_rows,
            buffer,
            meters or {},
            prices,
            monitors,
            caches,
            cache_bytes,
        )
        self.runner: BlockEngine | TreeEngine
        self._tree: TreeEngine | None = None
        self.known: BlockEngine | Leaves
        """Who tells what is known and decided."""
        if isinstance(asked, Query) or asked.plain is not None:
            self.runner = self.known = BlockEngine(
                asked, policy=policy, seed=seed, index=index, tables=tables, idle=idle, output=output,
                prefiltered=prefiltered, leave=leave, slice_rows=slice_rows, buffer=buffer, meters=meters,
                prices=prices, monitors=monitors, scheduler=scheduler, deltas=deltas, caches=caches,
                cache_bytes=cache_bytes,
            )  # fmt: skip
        else:
            if deltas is not None or output is not None:
                raise DefinitionError("deltas= and output= are for queries that are nothing but a join")
            # Only now: its operators have compiled kernels of their own, which a plain join does without.
            from thalweg.engine.halves import UpperEngine
            from thalweg.engine.tree import TreeEngine

            self.runner = self._tree = (
                TreeEngine(asked, options, idle=idle, scheduler=scheduler)
                if asked.sent is None
                else UpperEngine(asked, options)
            )
            self.known = self.runner.leaves

    # Data in

    def push(self, source: str, batch: pa.RecordBatch | pa.Table, *, into: Sink | None = None) -> pa.Table:
        """Take in rows of a source and return the results they complete.

        With `into`, results go there chunk by chunk instead, so that a flood of them never has to be in memory at once.
        """
        return self.runner.push(source, batch, into=into)

    def take_batch(
        self, tables: Mapping[str, pa.Table], *, newest: Mapping[str, int] | None = None, into: Sink | None = None
    ) -> pa.Table:
        """Take in rows of several streams at once, in spans of time, and advance the watermarks.

        `newest` is the newest time of each stream as known elsewhere, in ticks. Without it the input is finite: nothing
        is late, and watermarks stay where they are until `close`.
        """
        return self.runner.take_batch(tables, newest=newest, into=into)

    # Time

    def advance(self, watermark: Watermark = None, *, into: Sink | None = None) -> pa.Table:
        """Promise that no row with a time before the watermark will come; drop what can't be needed any more.

        One watermark for all streams, or one by source, in what the source's time column counts, or a datetime. None
        stands for the watermarks that the newest times seen allow. Returns the results that waited for it.
        """
        return self.runner.advance(watermark, into=into)

    def close(self, *, into: Sink | None = None) -> pa.Table:
        """End of input: everything that waits comes out, and a query over tables only gives its answer."""
        return self.runner.close(into=into)

    # What is known and decided

    @property
    def schema(self) -> pa.Schema:
        """The columns of the results."""
        return self.runner.schema

    @property
    def blocks(self) -> tuple[BlockEngine, ...]:
        """The engines of the query's join blocks."""
        return self.runner.blocks

    @property
    def names(self) -> list[dict[str, str]]:
        """For each block: by alias, the name of the input in the whole query."""
        return self.known.names

    @property
    def count(self) -> int:
        """Results so far."""
        return self.runner.count

    @property
    def seconds_above(self) -> float:
        """Real time spent on what stands above the blocks, since this engine was made."""
        return 0.0 if self._tree is None else self._tree.seconds_above

    @property
    def passed(self) -> int:
        """Of a relation: every change before this instant, in ticks, has left."""
        return ALWAYS if self._tree is None else self._tree.passed

    @property
    def left(self) -> list[str]:
        """Predicates left to the caller."""
        return self.runner.left

    @property
    def streams(self) -> list[str]:
        """Sources with a time."""
        return [f.name for f in self.runner.clocks.streams]

    def silent(self) -> list[str]:
        """Streams that have fallen idle: their watermarks follow the others."""
        return self.runner.clocks.silent()

    def stats(self) -> dict[str, Any]:
        """Counts so far: by source what came, by input what is stored and what probing took."""
        return self.runner.stats()

    def needed(self) -> dict[str, int]:
        """Rows of each stream that a row may still meet: what any way to run the query has to hold."""
        return self.known.needed()

    def plan(self) -> Plan:
        """Every decision in force. Its version counts the changes of all parts."""
        return self.known.plan()

    def explain(self) -> dict[str, Explanation]:
        """The routes in force, by input, and why; of a tree also what waits, by operator."""
        return self.runner.explain()

    def findings(self) -> dict[str, dict[str, Mapping[str, Fact]]]:
        """What the monitors found, by input and monitor."""
        return self.known.findings()

    def events(self) -> list[Event]:
        """Decisions since the last call."""
        return self.known.events()

    def classes(self) -> dict[str, ByClass]:
        """What the rows of each class met since the last call, by input."""
        return self.known.classes()

    def indexes(self) -> dict[str, IndexView]:
        """The layout in force of each stem; with a tuner, its access patterns and what other layouts would cost."""
        return self.known.indexes()

    def freeze(self, orders: Mapping[str, Sequence[str]] | None = None) -> None:
        """Pin the routes in force, of every class where there are some, or the given orders of operators by input;
        policies neither decide nor learn until `thaw`."""
        self.runner.steering.freeze(orders)

    def thaw(self) -> None:
        self.runner.steering.thaw()

    @property
    def frozen(self) -> dict[str, Route]:
        """Pinned routes by input."""
        return self.runner.steering.frozen

    # State

    def snapshot(self) -> dict[str, bytes]:
        """Everything needed to go on elsewhere. Taking it changes nothing."""
        return self.runner.snapshot()

    def restore(self, parts: Mapping[str, bytes]) -> None:
        """Take up the state of an equal query. The engine must be fresh, with the same tables."""
        self.runner.restore(parts)
