"""Builds the DataFrame of `tw.where`: SQL before, one Python hop, SQL after."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, NumericType, StringType, StructField, StructType

from thalweg import optimize
from thalweg.errors import DefinitionError, did_you_mean
from thalweg.language.predicate import Predicate, as_predicate
from thalweg.language.scalar.safety import may_raise
from thalweg.plan import Operator, Pipeline
from thalweg.spark.asked import Asked, AskedInput
from thalweg.spark.board import METRIC, Entry, board
from thalweg.spark.control import CONF, Control, default_folder
from thalweg.spark.filters import STATS, FilterTask, runner

IN_SPARK = "Spark, before the Python hop"
AFTER_HOP = "Spark, after the Python hop"
IN_PYTHON = "Python, adaptive"


def where(
    df: DataFrame, predicates: Sequence[Any], policy: str = "auto", name: str | None = None, seed: int | None = None
) -> DataFrame:
    """See `thalweg.where`."""
    given = _distinct([_resolved(as_predicate(p), df) for p in predicates])
    _check_guards(given)
    if policy not in optimize.names():
        raise DefinitionError(f"no policy '{policy}'", hint=did_you_mean(policy, optimize.names()))
    python = [p for p in given if p.function is not None]
    before, after, places = _place_sql(given, df.schema)
    pipeline = _pipeline(python, name or "where")
    _ = pipeline.written  # a circle of guards is an error now, not in a worker
    for p in before:
        df = df.where(p.sql)
    shown = name or f"where({', '.join(p.name for p in given)})"
    if python:
        df = _hop(df, python, pipeline, policy, shown, _key(name, seed, pipeline, df), seed, places)
    else:
        board.register(_entry(df, shown, policy, pipeline, places, shown))
    for p in after:
        df = df.where(p.sql)
    return df


def _hop(
    df: DataFrame, python: list[Predicate], pipeline: Pipeline, policy: str,
    name: str, key: str, seed: int | None, places: dict[str, str],
) -> DataFrame:  # fmt: skip
    spark, schema = df.sparkSession, df.schema
    if STATS in schema.names:
        raise DefinitionError(f"the column name '{STATS}' is taken by Thalweg", hint="rename it")
    entry = board.register(_entry(df, name, policy, pipeline, places, key))
    task = FilterTask(key, pipeline, tuple(python), policy, seed or 0, schema, _timezone(spark), _folder(df))
    # The input's own fields, so metadata such as a watermark's tag survives.
    out = StructType([*schema.fields, StructField(STATS, StringType())])
    hopped = df.mapInArrow(runner(task), out)
    stats = F.collect_list(STATS).alias("stats")
    if df.isStreaming:
        board.listen(spark)
        observed = hopped.observe(METRIC + name, stats)
    else:
        entry.collect(seconds=0.0)
        observation = Observation(f"{METRIC}{name}:{uuid.uuid4().hex}")
        observed = hopped.observe(observation, stats)
        board.wait_for(entry, observation)
    return observed.where(F.col(STATS).isNull()).drop(STATS)


def _entry(df: DataFrame, name: str, policy: str, pipeline: Pipeline, places: dict[str, str], key: str) -> Entry:
    asked = Asked(name, policy, df.isStreaming, (AskedInput("", None, pipeline),), places)
    return Entry(asked, Control(_folder(df), key))


def _key(name: str | None, seed: int | None, pipeline: Pipeline, df: DataFrame) -> str:
    """The key of what workers remember. A named query continues after a restart; one without a name, or with a seed and
    so repeatable, remembers only within its application."""
    lasting = name if name and seed is None else f"{name or 'where'}-{df.sparkSession.conf.get('spark.app.id', 'app')}"
    # Knowledge from before a guard was added is useless after it.
    parts = (op.name + "".join(f"_after_{pipeline.names[g]}" for g in sorted(op.after)) for op in pipeline.operators)
    return f"{lasting}-{'-'.join(parts)}"


def _folder(df: DataFrame) -> str:
    return df.sparkSession.conf.get(CONF, None) or default_folder()


def _timezone(spark: SparkSession) -> str:
    return str(spark.conf.get("spark.sql.session.timeZone") or "UTC")


def _resolved(p: Predicate, df: DataFrame) -> Predicate:
    """Column names as the schema spells them; Spark does not mind case, Arrow does."""
    if p.function is None:
        return p
    spelled: dict[str, list[str]] = {}
    for c in df.columns:
        spelled.setdefault(c.lower(), []).append(c)
    columns = []
    for c in p.columns:
        if not isinstance(c, str):
            raise DefinitionError(f"predicate '{p.name}' names a column by a {type(c).__name__}", hint="use its name")
        found = spelled.get(c.lower(), [])
        exact = [f for f in found if f == c]
        if not found:
            raise DefinitionError(f"predicate '{p.name}' takes column '{c}', which is not there",
                                  hint=did_you_mean(c, df.columns))  # fmt: skip
        if len(exact or found) > 1:
            raise DefinitionError(f"predicate '{p.name}' takes column '{c}', but there are {len(found)} of that name",
                                  hint="rename one with withColumnRenamed")  # fmt: skip
        columns.append((exact or found)[0])
    return Predicate(p.name, p.function, tuple(columns), p.kind, p.after)


def _distinct(predicates: list[Predicate]) -> list[Predicate]:
    """Number later predicates whose name is taken."""
    taken: dict[str, int] = {}
    out = []
    for p in predicates:
        taken[p.name] = taken.get(p.name, 0) + 1
        number = taken[p.name]
        out.append(p if number == 1 else Predicate(f"{p.name}#{number}", p.function, p.columns, p.kind, p.after, p.sql))
    return out


def _check_guards(predicates: list[Predicate]) -> None:
    names = [p.name for p in predicates]
    for p in predicates:
        for guard in p.after:
            if guard not in names:
                raise DefinitionError(f"predicate '{p.name}' comes after '{guard}', which is not there",
                                      hint=did_you_mean(guard, [n for n in names if n != p.name]))  # fmt: skip


def _place_sql(
    predicates: list[Predicate], schema: StructType
) -> tuple[list[Predicate], list[Predicate], dict[str, str]]:
    """Which SQL runs before the hop and which after it, and where everything runs, with the reason.

    SQL is cheap in Spark, so it goes first, unless that could raise where the written order would not have: text that
    may raise and stands behind a Python predicate, or is guarded by one, stays behind.
    """
    families = {f.name: _family(f.dataType) for f in schema.fields}
    before: list[Predicate] = []
    after: list[Predicate] = []
    places: dict[str, str] = {}
    behind_python = False
    late: set[str] = {p.name for p in predicates if p.function is not None}
    for p in predicates:
        if p.function is not None:
            behind_python = True
            places[p.name] = f"{IN_PYTHON} ({p.kind} function)"
            continue
        risky = not isinstance(p.sql, str) or may_raise(p.sql, families)
        if any(g in late for g in p.after):
            after.append(p)
            places[p.name] = f"{AFTER_HOP} (guarded by {', '.join(p.after)})"
        elif risky and behind_python:
            after.append(p)
            places[p.name] = f"{AFTER_HOP} (it may raise, and is written behind a Python predicate)"
        else:
            before.append(p)
            places[p.name] = f"{IN_SPARK} (SQL)"
            continue
        late.add(p.name)
    guarded_by_late_sql = [
        (p.name, g) for p in predicates if p.function is not None for g in p.after if g in {a.name for a in after}
    ]
    if guarded_by_late_sql:
        inner, guard = guarded_by_late_sql[0]
        raise DefinitionError(
            f"'{inner}' waits for '{guard}', which itself has to run after the Python predicates",
            hint="write the guard first, or as a Python predicate",
        )
    return before, after, places


def _family(data_type: DataType) -> str:
    if isinstance(data_type, NumericType):
        return "number"
    return str(data_type.typeName())


def _pipeline(python: list[Predicate], stream: str) -> Pipeline:
    places = {p.name: i for i, p in enumerate(python)}
    return Pipeline(
        stream,
        tuple(Operator(p.name, after=frozenset(places[g] for g in p.after if g in places)) for p in python),
    )
