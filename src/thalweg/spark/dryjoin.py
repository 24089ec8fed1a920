"""A dry run of `tw.sql`: a span of time that all streams share, read to the driver and rehearsed there.

The inputs are prepared as for the real query (plain SQL conditions by Spark, only the columns that are read), but
nothing is registered, started or written. Of a query with several join blocks, the largest is rehearsed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column as SparkColumn
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from thalweg import optimize
from thalweg.engine.rehearse_join import JoinRehearsal, rehearse_join, times_of
from thalweg.errors import DefinitionError, did_you_mean
from thalweg.language.inputs import StreamInput, TableInput
from thalweg.language.query import Query
from thalweg.spark import catalog
from thalweg.spark.blockinputs import BlockInputs
from thalweg.spark.columnnames import column
from thalweg.spark.faithful import Meaning
from thalweg.spark.given import sort_out
from thalweg.state.times import PER_SECOND

SAMPLE = 50_000
"""Rows of all streams together."""


def dry_sql(
    text: str, inputs: Mapping[str, Any], policy: str, seed: int | None, spark: SparkSession | None
) -> tuple[JoinRehearsal, float, float]:
    """What came of it, the seconds that the sample spans, and those of the longest window."""
    frames, functions = sort_out(inputs)
    if policy not in optimize.names():
        raise DefinitionError(f"no policy '{policy}'", hint=did_you_mean(policy, optimize.names()))
    found, frames, session = catalog.bound(text, frames, functions, spark)
    largest = found.plain or max((leaf.query for leaf in found.leaves), key=lambda q: len(q.inputs))
    return _rehearsed(BlockInputs.of(largest, frames, Meaning.of(session)), policy, seed or 0)


def _rehearsed(block: BlockInputs, policy: str, seed: int, rows: int = SAMPLE) -> tuple[JoinRehearsal, float, float]:
    query = block.query
    _static(block.frames)
    low, high = _span(query, block.frames, rows)
    frames = {
        a: replace(g, df=g.df.where(_seconds(g).between(low, high))) if isinstance(g, StreamInput) else g
        for a, g in block.frames.items()
    }
    cut = BlockInputs(query, frames, block.groups, block.types, block.left)
    sample: dict[str, pa.Table] = {}
    for i in query.inputs:
        names = cut.read(i.alias)
        found = cut.prepared([i.alias]).toArrow().select(range(len(names))).rename_columns(names)
        table = found.cast(pa.schema([i.spec.schema.field(n) for n in names]))
        if i.spec.time is not None:
            table = table.filter(pc.is_valid(table[i.spec.time])).sort_by(i.spec.time)
        sample[i.alias] = table
    times = {i.alias: times_of(sample[i.alias][str(i.spec.time)]) for i in query.streams}
    spans = [i.window.span / 1e6 for i in query.streams if i.window.kind == "range"]
    return rehearse_join(query, sample, times, policy, seed), high - low, max(spans, default=0.0)


def _static(frames: Mapping[str, StreamInput | TableInput]) -> None:
    for name, given in frames.items():
        if given.df.isStreaming:
            raise DefinitionError(
                f"'{name}' is a stream: it gives no sample before it runs",
                hint="give static DataFrames with such rows, for example the same source with spark.read instead of "
                f'spark.readStream: {name}=tw.stream(spark.read..., time="{getattr(given, "time", "")}")',
            )


def _span(query: Query, frames: Mapping[str, StreamInput | TableInput], rows: int) -> tuple[float, float]:
    """From when to when, in seconds: a span in which all streams have rows, about `rows` of them."""
    bounds = []
    for i in query.streams:
        at = _seconds(frames[i.alias])
        found = frames[i.alias].df.agg(F.min(at), F.max(at), F.count(at)).collect()[0]
        if not found[2]:
            raise DefinitionError(f"'{i.alias}' has no rows to try", hint="a dry run needs rows of every stream")
        bounds.append((float(found[0]), float(found[1]), int(found[2])))
    if not bounds:
        raise DefinitionError("the query has no streams", hint='say which column is the time: tw.stream(df, time="ts")')
    low, high = max(b[0] for b in bounds), min(b[1] for b in bounds)
    if low > high:
        raise DefinitionError(
            "no two streams have rows at the same time", hint="give rows of the same span, or check the unit of times"
        )
    # As if rows came evenly; the first window's worth may be sparse, and the sample a little smaller or larger.
    both = sum(n * (high - low) / (b - a) if b > a else n for a, b, n in bounds)
    return low, low + (high - low) * min(1.0, rows / max(both, 1))


def _seconds(given: StreamInput | TableInput) -> SparkColumn:
    """The time of a row, in seconds since 1970."""
    assert isinstance(given, StreamInput)
    at = column(given.time)
    if given.unit is not None:
        return at.cast("double") / PER_SECOND[given.unit]
    return at.cast("timestamp").cast("double")
