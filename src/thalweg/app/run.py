"""Runs an application: all its queries side by side, until they end or a signal asks to stop.

Ctrl-C and SIGTERM stop every query between two micro-batches, as far as Spark allows. Checkpoints keep the progress, and
the next run continues from there.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console

from thalweg import api
from thalweg.app import build
from thalweg.app.appfile import read
from thalweg.app.values import NOW, App, AppError, AppQuery
from thalweg.errors import did_you_mean
from thalweg.spark.secrets import unlogged
from thalweg.watch.live import Watcher
from thalweg.watch.stop import Stop


def run(path: Path, *, only: tuple[str, ...] = (), watch: bool = False, console: Console | None = None) -> int:
    """The command: returns 0 if all queries ended well, 1 if one failed, 130 after a signal."""
    console = console or Console()
    app = read(path)
    chosen = _chosen(app, only)
    with _metrics(app, console):
        return _run(app, chosen, watch, console)


def _run(app: App, chosen: list[AppQuery], watch: bool, console: Console) -> int:
    console.print(f"[dim]starting Spark for {len(chosen)} {'query' if len(chosen) == 1 else 'queries'}[/dim]")
    log = None
    if watch and console.is_terminal:
        handle, place = tempfile.mkstemp(prefix=f"thalweg-{app.path.stem}-", suffix=".log")
        os.close(handle)
        log = Path(place)
    if log is not None:
        console.print(f"[dim]Spark's own messages go to {log}[/dim]", highlight=False, soft_wrap=True)
    spark = build.session(app, log)
    with Stop() as stop:
        running: dict[str, StreamingQuery] = {}
        try:
            inputs = build.frames(app, spark)
            ready = {q.name: build.dataframe(app, q, inputs, move=True) for q in chosen}
            for query in chosen:
                running[query.name] = start(app, query, ready[query.name])
            stopped = Watcher(running, console, live=watch).until_over(stop)
            failed = failures(app, running, console)
            if stopped:
                console.print("stopped; the next run continues from the checkpoints" if app.checkpoint else "stopped")
            return 130 if stopped else 1 if failed else 0
        finally:
            _end(spark, running)


@contextmanager
def _metrics(app: App, console: Console) -> Iterator[None]:
    """Serve metrics inside this context, if the file asks for them."""
    if app.metrics is None:
        yield
        return
    address, port = app.metrics
    serving = api.metrics(port, address)
    console.print(f"[dim]metrics at http://{address}:{serving.port}/metrics[/dim]", highlight=False, soft_wrap=True)
    try:
        yield
    finally:
        serving.close()


def explain(path: Path, *, only: tuple[str, ...] = (), console: Console | None = None) -> int:
    """Show the plan of each query without starting any."""
    console = console or Console()
    app = read(path)
    spark = build.session(app)
    inputs = build.frames(app, spark)
    for query in _chosen(app, only):
        df = build.dataframe(app, query, inputs)
        console.print(str(api.query(query.name).explain()), markup=False, highlight=False, soft_wrap=True)
        columns = ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in df.schema.fields)
        sink = f"{query.sink.format} {query.sink.path or ''}".strip()
        console.print(f"gives       {columns}\nwrites      {sink}, {query.sink.mode}, trigger {query.trigger}\n",
                      markup=False, highlight=False, soft_wrap=True)  # fmt: skip
    spark.stop()
    return 0


def check(path: Path, *, only: tuple[str, ...] = (), console: Console | None = None) -> int:
    """Say of each query whether its checkpoint will be accepted; 1 if one is refused."""
    console = console or Console()
    app = read(path)
    spark = build.session(app)
    inputs, refused = build.frames(app, spark), False
    for query in _chosen(app, only):
        df, folder = build.dataframe(app, query, inputs), build.checkpoint_of(app, query)
        if folder is None or getattr(df, "_thalweg_task", None) is None:
            said = f"{query.name}: keeps no state of Thalweg's"
        else:
            verdict = api.check(df, folder)
            refused, said = refused or not verdict, f"{query.name}: {verdict}"
        console.print(said, markup=False, highlight=False, soft_wrap=True)
    spark.stop()
    return int(refused)


def start(app: App, query: AppQuery, df: DataFrame) -> StreamingQuery:
    writer = df.writeStream.queryName(query.name).format(query.sink.format).outputMode(query.sink.mode)
    with unlogged():
        writer = writer.options(**query.sink.options)
    if app.checkpoint is not None:
        writer = writer.option("checkpointLocation", str(app.checkpoint / query.name))
    if query.trigger == NOW[0]:
        writer = writer.trigger(availableNow=True)
    elif query.trigger == NOW[1]:
        writer = writer.trigger(once=True)
    else:
        writer = writer.trigger(processingTime=query.trigger)
    return writer.start(query.sink.path) if query.sink.path is not None else writer.start()


def _chosen(app: App, only: tuple[str, ...]) -> list[AppQuery]:
    for name in only:
        if name not in app.queries:
            raise AppError(f"no query '{name}' in {app.path.name}", hint=did_you_mean(name, app.queries))
    return [q for name, q in app.queries.items() if not only or name in only]


def failures(app: App, running: dict[str, StreamingQuery], console: Console) -> bool:
    failed = False
    for name, query in running.items():
        error = query.exception()
        if error is not None:
            failed = True
            console.print(
                f"query '{name}' failed:\n{build.safe(app, error)}",
                style="red",
                markup=False,
                highlight=False,
                soft_wrap=True,
            )
    return failed


def _end(spark: SparkSession, running: dict[str, StreamingQuery]) -> None:
    spark.sparkContext.setLogLevel("OFF")  # interrupted tasks are expected here
    for query in running.values():
        if query.isActive:
            query.stop()
    spark.stop()
