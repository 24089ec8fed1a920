"""Reads an application file into values. Every fault names its line and says what to do about it.

Nothing here needs Spark: whatever the text alone shows to be wrong is reported before anything starts.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from thalweg import optimize
from thalweg.app.functions import load
from thalweg.app.lines import line_of
from thalweg.app.section import Section, kind_of
from thalweg.app.values import EPHEMERAL, MODES, NOW, App, AppError, AppQuery, Sink, Source, StreamSource
from thalweg.errors import DefinitionError, did_you_mean
from thalweg.language.durations import micros
from thalweg.language.query import UNITS


def read(path: Path) -> App:
    """Read and check a file. Raises AppError with the line of the first fault."""
    if not path.is_file():
        raise AppError(f"no file '{path}'", hint="'thalweg init' writes an example")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        line = path.read_bytes()[: error.start].count(b"\n") + 1
        raise AppError(f"{path.name}:{line}: not UTF-8 text", hint="save the file as UTF-8") from None
    try:
        whole = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"\(at line (\d+), column (\d+)\)", str(error))
        said = re.sub(r" \(at .*\)$", "", str(error))
        where = f"{path.name}:{place[1]}" if place else f"{path.name}:{len(text.splitlines()) or 1}"
        raise AppError(
            f"{where}: not TOML: {said}",
            hint="text goes in quotes; sections look like [streams.name] or [queries.name]",
        ) from None
    return _Reader(path, text).app(whole)


class _Reader:
    def __init__(self, path: Path, text: str) -> None:
        self.path, self.text = path, text
        self.folder = path.resolve().parent

    def fault(self, path: Sequence[str], message: str, hint: str | None) -> NoReturn:
        raise AppError(f"{self.path.name}:{line_of(self.text, tuple(path))}: {message}", hint=hint)

    def app(self, whole: dict[str, Any]) -> App:
        top = Section(self.fault, whole, (), "the file")
        checkpoint = top.take("checkpoint", str)
        metrics = self.metrics(top)
        spark = Section(self.fault, top.take("spark", dict, {}), ("spark",), "[spark]")
        streams = {n: self.stream(n, v) for n, v in self.named(top, "streams").items()}
        tables = {n: self.table(n, v) for n, v in self.named(top, "tables").items()}
        functions = self.named(top, "functions")
        queries = self.named(top, "queries")
        top.done()
        if not queries:
            self.fault((), "no query", 'add [queries.name] with sql = """...""", or from and where')
        for name in tables:
            if name in streams:
                self.fault(
                    ("tables", name), f"'{name}' is already a stream", "streams and tables share one set of names"
                )
        for name, target in functions.items():
            self.function(name, target, {*streams, *tables})
        for key, value in spark.values.items():
            if isinstance(value, dict):
                self.fault(
                    ("spark", key), f"[spark]: '{key}' is a table", 'write the whole name in quotes: "spark.sql..." = 1'
                )
        made = {n: self.query(n, v, streams) for n, v in queries.items()}
        self.distinct_sinks(made)
        for name, q in made.items():
            if checkpoint is None and q.sink.format not in EPHEMERAL:
                self.fault(("queries", name, "sink"), f"query '{name}' writes '{q.sink.format}' and the file has no 'checkpoint'",
                           'put checkpoint = "out/checkpoints" at the top: a restart continues from it')  # fmt: skip
        loaded = {n: load(n, t, self.path, self.fault) for n, t in functions.items()}
        return App(
            self.path, self.text, self.folder / checkpoint if checkpoint else None,
            {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in spark.values.items()},
            streams, tables, functions, made, metrics, loaded,
        )  # fmt: skip

    def metrics(self, top: Section) -> tuple[str, int] | None:
        given = top.take("metrics", (int, str))
        if given is None:
            return None
        address, _, port = str(given).rpartition(":")
        if not port.isdecimal() or int(port) > 65535 or (isinstance(given, str) and not address):
            top.fault(
                "metrics",
                f"'{given}' is not a port",
                '9108 for a port on this machine, or "0.0.0.0:9108" to admit other machines',
            )
        return address or "127.0.0.1", int(port)

    def named(self, top: Section, key: str) -> dict[str, Any]:
        given = top.take(key, (dict, list), {})
        if isinstance(given, list):
            self.fault((key,), f"[[{key}]] is a list", f"name each one: [{key}.name]")
        for name in given:
            if not re.fullmatch(r"[A-Za-z_]\w*", name):
                self.fault(
                    (key, name),
                    f"'{name}' can't be a name in a query",
                    "use letters, digits and _, and don't start with a digit",
                )
        return dict(given)

    def source(self, section: Section) -> dict[str, Any]:
        format = section.take("format", str, needed='for example format = "parquet"')
        path = section.take("path", str)
        if path is None and format in ("parquet", "json", "csv", "orc", "text", "delta", "avro"):
            section.fault(
                "path", f"a source of format '{format}' needs 'path'", "a folder relative to this file, or a URL"
            )
        return {
            "format": format, "path": None if path is None else self.place(path),
            "schema": section.take("schema", str), "options": section.options("options"), "select": section.texts("select"),
        }  # fmt: skip

    def stream(self, name: str, values: Any) -> StreamSource:
        section = Section(self.fault, values, ("streams", name), f"stream '{name}'")
        common = self.source(section)
        if common["schema"] is None and common["format"] in ("parquet", "json", "csv", "orc", "avro"):
            section.fault("schema", f"a stream of '{common['format']}' files needs 'schema'",
                          'as Spark writes it: schema = "ts timestamp, price double"')  # fmt: skip
        time = section.take("time", str)
        lateness = section.duration("lateness", 0)
        idle, ahead = section.duration("idle", None), section.duration("ahead", None)
        unit = section.take("unit", str)
        if unit not in (None, *UNITS):
            section.fault("unit", f"no unit of time '{unit}'", 'one of "s", "ms" and "us"')
        if time is None and (lateness or idle is not None or ahead is not None or unit is not None):
            section.fault(
                "time", "'lateness', 'idle', 'ahead' and 'unit' need 'time'", 'name the time column: time = "ts"'
            )
        section.done()
        return StreamSource(name, time=time, lateness=lateness or 0, idle=idle, ahead=ahead, unit=unit, **common)

    def table(self, name: str, values: Any) -> Source:
        section = Section(self.fault, values, ("tables", name), f"table '{name}'")
        for key in ("time", "lateness"):
            if key in section.values:
                section.fault(key, f"a table has no '{key}'", f"should it be [streams.{name}]?")
        made = Source(name, **self.source(section))
        section.done()
        return made

    def function(self, name: str, target: Any, taken: set[str]) -> None:
        if not isinstance(target, str) or not re.fullmatch(r"[\w.]+:[\w.]+", target):
            self.fault(("functions", name), f"function '{name}' must be \"module:name\", not {kind_of(target)}",
                       "a module beside this file, or an installed one")  # fmt: skip
        if name in taken:
            self.fault(
                ("functions", name), f"'{name}' is already a stream or a table", "give the function another name"
            )

    def query(self, name: str, values: Any, streams: Mapping[str, StreamSource]) -> AppQuery:
        section = Section(self.fault, values, ("queries", name), f"query '{name}'")
        sql, source = section.take("sql", str), section.take("from", str)
        where = section.texts("where")
        if (sql is None) == (source is None):
            both = "has both 'sql' and 'from'" if sql else "has neither 'sql' nor 'from'"
            section.fault(
                "sql", both, 'either sql = """SELECT ...""", or from = "stream" and where = ["predicate", ...]'
            )
        if sql is not None and where:
            section.fault("where", "'where' goes with 'from'", "with 'sql', put conditions into WHERE")
        if source is not None and source not in streams:
            section.fault("from", f"no stream '{source}'", did_you_mean(source, streams))
        policy = section.take("policy", str, "auto")
        if policy not in optimize.names():
            section.fault("policy", f"no policy '{policy}'", did_you_mean(policy, optimize.names()))
        cells = section.take("cells", int)
        if cells is not None and cells < 1:
            section.fault(
                "cells", f"'cells' must be at least 1, not {cells}", "one per core; leave it out to let Spark decide"
            )
        if cells is not None and sql is None:
            section.fault("cells", "'cells' goes with 'sql': a filter has none", "leave it out")
        trigger = self.trigger(section)
        sink = self.sink(section, name)
        seed = section.take("seed", int)
        section.done()
        return AppQuery(
            name, sql, source, where, policy, cells, seed, sink, trigger, line_of(self.text, ("queries", name))
        )

    def trigger(self, section: Section) -> str:
        trigger: str = section.take("trigger", str, "0 seconds")
        if trigger not in NOW:
            try:
                micros(trigger, "trigger")
            except DefinitionError:
                section.fault(
                    "trigger", f"trigger '{trigger}' is not a duration", f"for example '10 seconds', or '{NOW[0]}'"
                )
        return trigger

    def sink(self, section: Section, name: str) -> Sink:
        given = section.take("sink", dict, needed=f'sink = {{ format = "parquet", path = "out/{name}" }}')
        inner = Section(self.fault, given, ("queries", name, "sink"), f"sink of '{name}'")
        format = inner.take("format", str, needed='for example format = "parquet" or "console"')
        path = inner.take("path", str)
        if path is None and format in ("parquet", "json", "csv", "orc", "delta", "avro"):
            inner.fault("path", f"a sink of format '{format}' needs 'path'", f'for example path = "out/{name}"')
        mode = inner.take("mode", str, "append")
        if mode not in MODES:
            inner.fault("mode", f"no output mode '{mode}'", did_you_mean(mode, MODES))
        options = inner.options("options")
        inner.done()
        return Sink(format, None if path is None else self.place(path), mode, options)

    def distinct_sinks(self, queries: Mapping[str, AppQuery]) -> None:
        seen: dict[str, str] = {}
        for name, query in queries.items():
            path = query.sink.path
            if path is not None and path in seen:
                self.fault(("queries", name, "sink"), f"query '{name}' writes to the same folder as '{seen[path]}'",
                           "each query needs a folder of its own")  # fmt: skip
            if path is not None:
                seen[path] = name

    def place(self, path: str) -> str:
        """Resolve a path against the folder of the file; leave URLs and absolute paths alone."""
        return path if "://" in path or Path(path).is_absolute() else str(self.folder / path)
