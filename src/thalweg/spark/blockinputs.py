"""The inputs of one join block as Spark sees them: filtered by plain SQL and cut to the columns that the cells read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, TimestampType

from thalweg.execute.shape import Shape
from thalweg.language.inputs import StreamInput, TableInput
from thalweg.language.query import Input, Query
from thalweg.spark.columnnames import column, ready
from thalweg.spark.faithful import Meaning, faithful
from thalweg.spark.input_schema import refuse_opaque
from thalweg.spark.pack import NOW
from thalweg.spark.shared import MEMBERS


class BlockInputs:
    """Prepares them. `groups` are the inputs that read the same source."""

    def __init__(
        self, query: Query, frames: Mapping[str, StreamInput | TableInput], groups: Sequence[tuple[str, ...]],
        types: Mapping[tuple[str, str], DataType], left: Mapping[str, str],
    ) -> None:  # fmt: skip
        self.query, self.frames, self.groups, self.types = query, frames, groups, types
        self.names = {i.alias: i.source for i in query.inputs}
        """By alias, the name under which an input's rows travel: unique in the whole query."""
        self.left = left
        """Why predicates are left to Spark, by text."""
        self.shape = Shape(query, prefiltered=True, leave=True)
        refuse_opaque(self.shape, types)

    @classmethod
    def of(
        cls, query: Query, frames: Mapping[str, StreamInput | TableInput], meaning: Meaning,
        names: Mapping[str, str] | None = None,
    ) -> BlockInputs:  # fmt: skip
        """The inputs of a bound block, from the frames by the names in FROM. `names` are those that rows travel under."""
        used = {i.alias: _with_computed(frames[i.source], i) for i in query.inputs}
        groups: dict[tuple[str, Any], tuple[str, ...]] = {}
        for i in query.inputs:
            groups[i.source, i.computed] = (*groups.get((i.source, i.computed), ()), i.alias)
        # Every input by its own name: the two sides of a self-join belong to different cells.
        named = tuple(replace(i, source=(names or {}).get(i.alias, i.alias), origin=i.source) for i in query.inputs)
        types = {(a, f.name): f.dataType for a, given in used.items() for f in given.df.schema.fields}
        block, left = faithful(replace(query.block, inputs=named), types, meaning)
        return cls(replace(query, block=block), used, list(groups.values()), types, left)

    def time_type(self) -> DataType:
        """The type of a result's time: the streams' own where they agree."""
        types = {self.types[i.alias, str(i.spec.time)].simpleString(): self.types[i.alias, str(i.spec.time)]
                 for i in self.query.streams}  # fmt: skip
        return next(iter(types.values())) if len(types) == 1 else TimestampType()

    def prepared_again(self, aliases: Sequence[str]) -> DataFrame:
        """A table as it is now."""
        again = {a: _anew(self.frames[a], self.query.input(a)) for a in aliases}
        return BlockInputs(self.query, {**self.frames, **again}, self.groups, self.types, self.left).prepared(aliases)

    def columns(self, aliases: Sequence[str]) -> list[str]:
        """Of a prepared table."""
        read = list(dict.fromkeys(c for a in aliases for c in self.read(a)))
        return read if len(aliases) == 1 else [*read, MEMBERS]

    def prepared(self, aliases: Sequence[str]) -> DataFrame:
        """A source for the inputs that read it."""
        return self._alone(aliases[0]) if len(aliases) == 1 else self._together(aliases)

    def _alone(self, alias: str) -> DataFrame:
        """An input with its plain SQL conjuncts applied, cut to the columns that matter."""
        df: DataFrame = self.frames[alias].df.alias(alias)
        ordered = self.query.input(alias).window.ordered
        for f in self.query.block.filters:
            if f.input == alias and not f.functions and not ordered:
                df = df.where(f.text)
        return ready(df.select(*[column(c) for c in self.read(alias)], *self._clock(alias)))

    def ahead(self, alias: str) -> int | None:
        """By how much a time may lie after the clock of its batch. Without a watermark there is nothing to protect."""
        given = self.frames[alias]
        return given.ahead if isinstance(given, StreamInput) and len(self.query.streams) > 1 else None

    def _clock(self, alias: str) -> list[Column]:
        """The clock of the batch, where it is asked for: the same in every row, and again when a batch is replayed."""
        return [F.current_timestamp().alias(NOW)] if self.ahead(alias) is not None else []

    def read(self, alias: str) -> list[str]:
        return self.shape.read(self.shape.number[alias])

    def _together(self, aliases: Sequence[str]) -> DataFrame:
        """A source that several inputs read, once, with a bit for each input whose plain SQL conjuncts hold."""
        df: DataFrame = self.frames[aliases[0]].df
        # A struct for each input, so `alias.column` in a predicate resolves.
        rows = df.select(*[F.struct(*[column(c) for c in df.columns]).alias(a) for a in aliases])
        members = F.lit(0)
        for k, alias in enumerate(aliases):
            holds = F.lit(True)
            for f in self.query.block.filters:
                if f.input == alias and not f.functions and not self.query.input(alias).window.ordered:
                    holds = holds & F.expr(f.text)
            members = members + F.when(holds, F.lit(1 << k)).otherwise(F.lit(0))
        columns = dict.fromkeys(c for a in aliases for c in self.read(a))
        read = [F.col(aliases[0]).getField(c).alias(c) for c in columns]
        tagged = rows.select(*read, members.cast("long").alias(MEMBERS), *self._clock(aliases[0]))
        return ready(tagged.where(F.col(MEMBERS) != 0))

    def cell_query(self) -> Query:
        """The query without the filters that packing has applied."""
        done = {i.alias for i in self.query.inputs if not i.window.ordered}
        left = tuple(f for f in self.query.block.filters if f.input not in done)
        return replace(self.query, block=replace(self.query.block, filters=left))

    def places(self) -> dict[str, str]:
        """Where each predicate runs, and why."""
        block, places = self.query.block, {}
        ordered = {i.alias for i in self.query.inputs if i.window.ordered}
        for f in block.filters:
            if f.text in self.shape.left:
                places[f.text] = "Spark, after the join (only Spark can evaluate it, and the window comes first)"
            elif f.input in ordered:
                places[f.text] = "the cell, after the window"
            else:
                places[f.text] = "Python, adaptive, before the window" if f.functions else "Spark, before the join"
        for key in block.keys:
            places[" = ".join(map(str, key.columns))] = f"index of the stems, as {key.type}"
        for r in block.residuals:
            after = r.text in self.shape.left
            places[r.text] = (
                f"Spark, after the join ({self.left.get(r.text, 'not vectorised')})"
                if after
                else "on candidates, as soon as its inputs are bound"
            )
        return places


def _anew(given: StreamInput | TableInput, entry: Input) -> StreamInput | TableInput:
    """A table whose DataFrame is made again, where that was asked for."""
    if not isinstance(given, TableInput) or given.make is None:
        return given
    return _with_computed(replace(given, df=given.make()), entry)


def _with_computed(given: StreamInput | TableInput, entry: Input) -> StreamInput | TableInput:
    """A frame with the columns that only Spark can compute."""
    if not entry.computed:
        return given
    df = given.df.alias(entry.alias)
    return replace(given, df=df.select("*", *[F.expr(text).alias(name) for name, text in entry.computed]))
