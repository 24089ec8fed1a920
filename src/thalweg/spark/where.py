"""Builds the DataFrame of `tw.where`: SQL before, one Python hop, SQL after."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, NumericType, StringType, StructField, StructType

from thalweg import optimize
from thalweg.errors import DefinitionError, did_you_mean
from thalweg.language.predicate import Predicate, as_predicate
from thalweg.language.scalar.safety import may_raise
from thalweg.plan import Operator, Pipeline
from thalweg.spark import quarantine, workers
from thalweg.spark.asked import Asked, AskedInput
from thalweg.spark.board import METRIC, Entry, board
from thalweg.spark.columnnames import ready
from thalweg.spark.control import CONF, Control, default_folder
from thalweg.spark.fields import fields_of
from thalweg.spark.filters import STATS, FilterTask, runner

IN_SPARK = "Spark, before the Python hop"
AFTER_HOP = "Spark, after the Python hop"
IN_PYTHON = "Python, adaptive"


def where(
    df: DataFrame, predicates: Sequence[Any], policy: str = "auto", name: str | None = None, seed: int | None = None,
    on_error: str = "raise",
) -> DataFrame:  # fmt: skip
    """See `thalweg.where`."""
    quarantine.checked(on_error)
    placed = prepared(df, predicates, policy, name)
    if name is not None and df.isStreaming:
        board.refuse_running(name)
    pipeline, places = placed.pipeline, placed.places
    df, shown = placed.df, name or f"where({', '.join(placed.names)})"
    if placed.python:
        task = filter_task(placed, _key(name, seed, pipeline, df), policy, seed)
        df = _hop(replace(task, on_error=on_error), df, shown, places)
    else:
        board.register(_entry(df, shown, policy, pipeline, places, shown))
    aside = F.col(quarantine.COLUMN).isNotNull() if on_error == "quarantine" and placed.python else None
    for p in placed.after:
        holds = F.expr(p.sql) if isinstance(p.sql, str) else p.sql
        df = df.where(holds if aside is None else aside | holds)
    if on_error == "quarantine" and not placed.python:
        df = df.withColumn(quarantine.COLUMN, F.lit(None).cast(quarantine.TYPE))
    return df


@dataclass(frozen=True)
class Prepared:
    """Predicates checked and placed: `df` has passed the SQL that runs before the Python hop."""

    df: DataFrame
    names: list[str]
    python: list[Predicate]
    pipeline: Pipeline
    after: list[Predicate]
    """SQL that runs after the hop."""
    places: dict[str, str]


def prepared(df: DataFrame, predicates: Sequence[Any], policy: str, name: str | None = None) -> Prepared:
    if not hasattr(df, "isStreaming"):
        raise DefinitionError(
            f"the first argument is a {type(df).__name__}, not a DataFrame", hint="tw.where(df, predicate, ...)"
        )
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
    return Prepared(df, [p.name for p in given], python, pipeline, after, places)


def filter_task(placed: Prepared, key: str, policy: str, seed: int | None) -> FilterTask:
    """What a worker runs."""
    schema, spark = placed.df.schema, placed.df.sparkSession
    if STATS in schema.names:
        raise DefinitionError(f"the column name '{STATS}' is taken by Thalweg", hint="rename it")
    workers.check(spark, joins=False)
    return FilterTask(
        key, placed.pipeline, tuple(placed.python), policy, seed or 0, schema, _timezone(spark), _folder(placed.df)
    )


def _hop(task: FilterTask, df: DataFrame, name: str, places: dict[str, str]) -> DataFrame:
    spark, schema = df.sparkSession, df.schema
    entry = board.register(_entry(df, name, task.policy, task.pipeline, places, task.key))
    # The input's own fields, so metadata such as a watermark's tag survives.
    aside = [quarantine.FIELD] if task.on_error == "quarantine" else []
    out = StructType([*schema.fields, *aside, StructField(STATS, StringType())])
    hopped = ready(df).mapInArrow(runner(task), out)
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
            raise DefinitionError(
                f"predicate '{p.name}' names a column by a {type(c).__name__}",
                hint='use its name, tw.pred(f, "column") or tw.pred(f, "struct.field")',
            )
        found = spelled.get(c.lower(), []) or fields_of(df.schema, c)
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
