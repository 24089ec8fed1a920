"""An application file read into values, each fault with its line and what to do about it.

Nothing here needs Spark: what can be known to be wrong from the text alone is said before anything starts.
"""

from __future__ import annotations

import importlib
import re
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from thalweg import optimize
from thalweg.app.lines import line_of
from thalweg.errors import DefinitionError, did_you_mean
from thalweg.language.inputs import micros

MODES = ("append", "update", "complete")
NOW = ("available now", "once")
EPHEMERAL = ("console", "memory", "noop")
"""Sinks that keep nothing, so that a restart has nothing to go on from."""


class AppError(DefinitionError):
    """Something in the file is wrong; the message starts with file and line."""


@dataclass(frozen=True)
class Source:
    """Where rows come from: a format and its options, as Spark's reader takes them."""

    name: str
    format: str
    path: str | None
    schema: str | None
    options: Mapping[str, str]
    select: tuple[str, ...]


@dataclass(frozen=True)
class StreamSource(Source):
    """A source read as a stream."""

    time: str | None = None
    lateness: str | int = 0
    idle: str | int | None = None


@dataclass(frozen=True)
class Sink:
    """Where results go, as Spark's writer takes it."""

    format: str
    path: str | None
    mode: str
    options: Mapping[str, str]


@dataclass(frozen=True)
class AppQuery:
    """One continuous query: windowed SQL, or a stream and its predicates."""

    name: str
    sql: str | None
    source: str | None
    where: tuple[str, ...]
    policy: str
    cells: int | None
    seed: int | None
    sink: Sink
    trigger: str
    line: int


@dataclass(frozen=True)
class App:
    """All of a file."""

    path: Path
    text: str
    checkpoint: Path | None
    spark: Mapping[str, str]
    streams: Mapping[str, StreamSource]
    tables: Mapping[str, Source]
    functions: Mapping[str, str]
    queries: Mapping[str, AppQuery]
    metrics: tuple[str, int] | None = None
    """Address and port where Prometheus finds them."""
    loaded: dict[str, Callable[..., Any]] = field(default_factory=dict, compare=False)

    def fault(self, path: Sequence[str], message: str, hint: str | None = None) -> AppError:
        """An error at the line that sets a path of keys."""
        line = line_of(self.text, tuple(path))
        return AppError(f"{self.path.name}:{line}: {message}", hint=hint)


def read(path: Path) -> App:
    """Read and check a file; AppError with the line of the first fault."""
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


class _Section:
    """One table of the file; what is taken from it is known, what is left over is a fault."""

    def __init__(self, reader: _Reader, values: Any, path: tuple[str, ...], what: str) -> None:
        self.reader, self.path, self.what = reader, path, what
        if not isinstance(values, dict):
            reader.fault(path, f"{what} is a table of settings, not {_kind(values)}", f"write [{'.'.join(path)}]")
        self.values: dict[str, Any] = dict(values)
        self._known: list[str] = []

    def fault(self, key: str, message: str, hint: str | None) -> NoReturn:
        self.reader.fault((*self.path, key), f"{self.what}: {message}", hint)

    def take(self, key: str, kind: type | tuple[type, ...], default: Any = None, *, needed: str | None = None) -> Any:
        self._known.append(key)
        if key not in self.values:
            if needed is not None:
                self.fault(key, f"'{key}' is missing", needed)
            return default
        value = self.values.pop(key)
        wrong = isinstance(value, bool) and kind is not bool and bool not in (kind if isinstance(kind, tuple) else ())
        if wrong or not isinstance(value, kind):
            wanted = " or ".join(_NAMES[k] for k in (kind if isinstance(kind, tuple) else (kind,)))
            self.fault(key, f"'{key}' must be {wanted}, not {_kind(value)}", f"for example {key} = {_EXAMPLES[kind]}")
        return value

    def options(self, key: str) -> dict[str, str]:
        given = self.take(key, dict, {})
        for name, value in given.items():
            if not isinstance(value, str | int | float | bool):
                self.fault(key, f"option '{name}' must be text, a number or true/false, not {_kind(value)}",
                           "Spark takes flat options; a name with dots goes in quotes")  # fmt: skip
        return {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in given.items()}

    def texts(self, key: str) -> tuple[str, ...]:
        given = self.take(key, list, [])
        for value in given:
            if not isinstance(value, str):
                self.fault(key, f"'{key}' is a list of texts, and holds {_kind(value)}", "put each in quotes")
        return tuple(given)

    def duration(self, key: str, default: str | int | None) -> str | int | None:
        value: str | int | None = self.take(key, str, default)
        if isinstance(value, str):
            try:
                micros(value, key)
            except DefinitionError as error:
                self.fault(key, error.message, error.hint)
        return value

    def done(self) -> None:
        for key in self.values:
            self.fault(key, f"unknown setting '{key}'", did_you_mean(key, self._known))


class _Reader:
    def __init__(self, path: Path, text: str) -> None:
        self.path, self.text = path, text
        self.folder = path.resolve().parent

    def fault(self, path: Sequence[str], message: str, hint: str | None) -> NoReturn:
        raise AppError(f"{self.path.name}:{line_of(self.text, tuple(path))}: {message}", hint=hint)

    def app(self, whole: dict[str, Any]) -> App:
        top = _Section(self, whole, (), "the file")
        checkpoint = top.take("checkpoint", str)
        metrics = self.metrics(top)
        spark = _Section(self, top.take("spark", dict, {}), ("spark",), "[spark]")
        streams = {n: self.stream(n, v) for n, v in self.named(top, "streams").items()}
        tables = {n: self.table(n, v) for n, v in self.named(top, "tables").items()}
        functions = self.named(top, "functions")
        queries = self.named(top, "queries")
        top.done()
        if not queries:
            self.fault((), "no query", 'add [queries.name] with sql = """...""", or from and where')
        for name in tables:
            if name in streams:
                self.fault(("tables", name), f"'{name}' is a stream already", "names are shared by streams and tables")
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
                           'put checkpoint = "out/checkpoints" at the top: it is what a restart goes on from')  # fmt: skip
        loaded = {n: self.load(n, t) for n, t in functions.items()}
        return App(
            self.path, self.text, self.folder / checkpoint if checkpoint else None,
            {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in spark.values.items()},
            streams, tables, functions, made, metrics, loaded,
        )  # fmt: skip

    def metrics(self, top: _Section) -> tuple[str, int] | None:
        given = top.take("metrics", (int, str))
        if given is None:
            return None
        address, _, port = str(given).rpartition(":")
        if not port.isdecimal() or int(port) > 65535 or (isinstance(given, str) and not address):
            top.fault(
                "metrics", f"'{given}' is no port", 'a port of this machine, 9108, or "0.0.0.0:9108" for others too'
            )
        return address or "127.0.0.1", int(port)

    def named(self, top: _Section, key: str) -> dict[str, Any]:
        given = top.take(key, (dict, list), {})
        if isinstance(given, list):
            self.fault((key,), f"[[{key}]] is a list", f"name each one: [{key}.name]")
        for name in given:
            if not re.fullmatch(r"[A-Za-z_]\w*", name):
                self.fault(
                    (key, name), f"'{name}' can't be a name in a query", "letters, digits and _, not first a digit"
                )
        return dict(given)

    def source(self, section: _Section) -> dict[str, Any]:
        format = section.take("format", str, needed='for example format = "parquet"')
        path = section.take("path", str)
        if path is None and format in ("parquet", "json", "csv", "orc", "text", "delta", "avro"):
            section.fault(
                "path", f"a source of format '{format}' needs 'path'", "a folder, relative to this file, or a URL"
            )
        return {
            "format": format, "path": None if path is None else self.place(path),
            "schema": section.take("schema", str), "options": section.options("options"), "select": section.texts("select"),
        }  # fmt: skip

    def stream(self, name: str, values: Any) -> StreamSource:
        section = _Section(self, values, ("streams", name), f"stream '{name}'")
        common = self.source(section)
        if common["schema"] is None and common["format"] in ("parquet", "json", "csv", "orc", "avro"):
            section.fault("schema", f"a stream of '{common['format']}' files needs 'schema'",
                          'as Spark writes it: schema = "ts timestamp, price double"')  # fmt: skip
        time = section.take("time", str)
        lateness = section.duration("lateness", 0)
        idle = section.duration("idle", None)
        if time is None and (lateness or idle is not None):
            section.fault("time", "'lateness' and 'idle' need 'time'", 'name the column of its time: time = "ts"')
        section.done()
        return StreamSource(name, time=time, lateness=lateness or 0, idle=idle, **common)

    def table(self, name: str, values: Any) -> Source:
        section = _Section(self, values, ("tables", name), f"table '{name}'")
        for key in ("time", "lateness"):
            if key in section.values:
                section.fault(key, f"a table has no '{key}'", f"should it be [streams.{name}]?")
        made = Source(name, **self.source(section))
        section.done()
        return made

    def function(self, name: str, target: Any, taken: set[str]) -> None:
        if not isinstance(target, str) or not re.fullmatch(r"[\w.]+:[\w.]+", target):
            self.fault(("functions", name), f"function '{name}' must be \"module:name\", not {_kind(target)}",
                       "a module beside this file, or an installed one")  # fmt: skip
        if name in taken:
            self.fault(
                ("functions", name), f"'{name}' is a stream or a table already", "give the function another name"
            )

    def load(self, name: str, target: str) -> Callable[..., Any]:
        module, _, attribute = target.partition(":")
        self.prefer_own(module.split(".")[0])
        try:
            found: Any = importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name != module.split(".")[0]:
                self.fault(("functions", name), f"function '{name}': importing '{module}' failed: {error}",
                           "install what it needs")  # fmt: skip
            self.fault(("functions", name), f"function '{name}': no module '{module}'",
                       f"expected {module}.py beside {self.path.name}, or an installed module")  # fmt: skip
        except (Exception, SystemExit) as error:
            self.fault(("functions", name), f"function '{name}': importing '{module}' failed: {type(error).__name__}: {error}",
                       f"'python -c \"import {module}\"' in this folder shows where")  # fmt: skip
        for part in attribute.split("."):
            if not hasattr(found, part):
                public = [n for n in dir(found) if not n.startswith("_")]
                self.fault(
                    ("functions", name), f"function '{name}': '{module}' has no '{part}'", did_you_mean(part, public)
                )
            found = getattr(found, part)
        if not callable(found):
            self.fault(("functions", name), f"function '{name}': '{target}' is {_kind(found)}, not a function",
                       f"name something in {module} that can be called with columns")  # fmt: skip
        made: Callable[..., Any] = found
        return made

    def prefer_own(self, top: str) -> None:
        """A module beside the file comes before one of the same name from elsewhere, loaded already or not."""
        place = str(self.folder)
        if sys.path[:1] != [place]:
            sys.path[:] = [place, *(p for p in sys.path if p != place)]
        known = getattr(sys.modules.get(top), "__file__", None)
        own = (self.folder / f"{top}.py", self.folder / top / "__init__.py")
        if known is not None and any(o.exists() for o in own) and Path(known) not in own:
            for name in [n for n in sys.modules if n == top or n.startswith(f"{top}.")]:
                del sys.modules[name]
            importlib.invalidate_caches()

    def query(self, name: str, values: Any, streams: Mapping[str, StreamSource]) -> AppQuery:
        section = _Section(self, values, ("queries", name), f"query '{name}'")
        sql, source = section.take("sql", str), section.take("from", str)
        where = section.texts("where")
        if (sql is None) == (source is None):
            both = "has both 'sql' and 'from'" if sql else "has neither 'sql' nor 'from'"
            section.fault(
                "sql", both, 'either sql = """SELECT ...""", or from = "stream" and where = ["predicate", ...]'
            )
        if sql is not None and where:
            section.fault("where", "'where' goes with 'from'", "with 'sql', conditions stand in its WHERE")
        if source is not None and source not in streams:
            section.fault("from", f"no stream '{source}'", did_you_mean(source, streams))
        policy = section.take("policy", str, "auto")
        if policy not in optimize.names():
            section.fault("policy", f"no policy '{policy}'", did_you_mean(policy, optimize.names()))
        cells = section.take("cells", int)
        if cells is not None and cells < 1:
            section.fault(
                "cells", f"'cells' must be at least 1, not {cells}", "as many as cores; without it Spark tells"
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

    def trigger(self, section: _Section) -> str:
        trigger: str = section.take("trigger", str, "0 seconds")
        if trigger not in NOW:
            try:
                micros(trigger, "trigger")
            except DefinitionError:
                section.fault(
                    "trigger", f"trigger '{trigger}' is no duration", f"for example '10 seconds', or '{NOW[0]}'"
                )
        return trigger

    def sink(self, section: _Section, name: str) -> Sink:
        given = section.take("sink", dict, needed=f'sink = {{ format = "parquet", path = "out/{name}" }}')
        inner = _Section(self, given, ("queries", name, "sink"), f"sink of '{name}'")
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
                self.fault(("queries", name, "sink"), f"query '{name}' writes where '{seen[path]}' does",
                           "each query needs a folder of its own")  # fmt: skip
            if path is not None:
                seen[path] = name

    def place(self, path: str) -> str:
        """A path as meant from the folder of the file; URLs and absolute paths as they are."""
        return path if "://" in path or Path(path).is_absolute() else str(self.folder / path)


_EXAMPLES: dict[type | tuple[type, ...], str] = {
    str: '"text"', int: "2", dict: '{ name = "value" }', list: '["one", "two"]', (int, str): '9108 or "0.0.0.0:9108"',
    (dict, list): "a section of its own",
}  # fmt: skip
_NAMES = {str: "text", int: "a whole number", dict: "a table", list: "a list", bool: "true or false", float: "a number"}


def _kind(value: Any) -> str:
    return f"'{value}'" if isinstance(value, str) else _NAMES.get(type(value), f"a {type(value).__name__}")
