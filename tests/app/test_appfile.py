"""Application files: what is read, and what is said of forty ways to get one wrong: line, remedy, exit code 2."""

from __future__ import annotations

import re

import pytest
from typer.testing import CliRunner

from thalweg.app.appfile import read
from thalweg.app.lines import line_of
from thalweg.cli import app as command

GOOD = '''\
checkpoint = "out/checkpoints"
metrics = 0
[spark]
"spark.sql.shuffle.partitions" = 2

[streams.clicks]
format = "json"
path = "clicks"
schema = "ts timestamp, id long"
time = "ts"
lateness = "2 seconds"
options = { maxFilesPerTrigger = 1, multiLine = true }

[streams.ticks]
format = "rate"

[tables.sites]
format = "csv"
path = "/data/sites.csv"

[functions]
odd = "judges:odd"

[queries.few]
from = "clicks"
where = ["odd(id)", "id > 3"]
sink = { format = "parquet", path = "out/few" }

[queries.joined]
sql = """
SELECT c.id FROM clicks [RANGE 5 SECONDS] AS c, sites AS s
WHERE c.id = s.id
"""
policy = "agreedy"
cells = 2
trigger = "available now"
sink = { format = "console" }
'''


def write(tmp_path, text):
    (tmp_path / "judges.py").write_text("def odd(id): return id % 2 == 1\nlimit = 3\n")
    (tmp_path / "broken.py").write_text("import nosuchthing\n")
    (tmp_path / "failing.py").write_text("1 / 0\n")
    (tmp_path / "ending.py").write_text("raise SystemExit(3)\n")
    path = tmp_path / "app.toml"
    path.write_text(text, "utf-8", "surrogateescape")
    return path


def test_a_good_file_is_read(tmp_path):
    app = read(write(tmp_path, GOOD))
    clicks = app.streams["clicks"]
    assert (clicks.path, clicks.time, clicks.lateness) == (str(tmp_path / "clicks"), "ts", "2 seconds")
    assert clicks.options == {"maxFilesPerTrigger": "1", "multiLine": "true"}
    assert app.tables["sites"].path == "/data/sites.csv"
    assert app.loaded["odd"](3)
    assert app.spark == {"spark.sql.shuffle.partitions": "2"}
    assert (app.checkpoint, app.metrics) == (tmp_path / "out/checkpoints", ("127.0.0.1", 0))
    few, joined = app.queries.values()
    assert (few.source, few.where, few.policy, few.trigger) == ("clicks", ("odd(id)", "id > 3"), "auto", "0 seconds")
    assert (joined.cells, joined.policy, joined.sink.format, joined.sink.mode) == (2, "agreedy", "console", "append")
    assert joined.sql.strip().startswith("SELECT c.id")


BAD = {
    "not TOML": ("path = \"clicks\"\n", "path = clicks\n", 8, "not TOML", "quotes"),
    "an open string": ("time = \"ts\"\n", "time = \"ts\n", 10, "not TOML", "quotes"),
    "no query": (GOOD[GOOD.index("[queries.few]"):], "", 1, "no query", "[queries.name]"),
    "a section misspelt": ("[tables.sites]", "[table.sites]", 17, "unknown setting 'table'", "did you mean 'tables'"),
    "a setting misspelt": ("lateness =", "latness =", 11, "unknown setting 'latness'", "did you mean 'lateness'"),
    "no format": ('format = "rate"\n', "", 14, "'format' is missing", 'format = "parquet"'),
    "no path": ('path = "clicks"\n', "", 6, "needs 'path'", "relative to this file"),
    "no schema": ('schema = "ts timestamp, id long"\n', "", 6, "needs 'schema'", "ts timestamp"),
    "no duration": ('"2 seconds"', '"2 secs ago"', 11, "lateness '2 secs ago' is not a duration", "'10 minutes'"),
    "lateness without time": ('time = "ts"\n', "", 6, "need 'time'", 'time = "ts"'),
    "a number for text": ('format = "rate"', "format = 7", 15, "'format' must be text, not a whole number", 'format = "text"'),
    "an option that is a table": ("multiLine = true", "multiLine = {}", 12, "option 'multiLine' must be text", "flat options"),
    "a table with time": ('path = "/data/sites.csv"', 'path = "x"\ntime = "ts"', 20, "a table has no 'time'", "[streams.sites]"),
    "a table named like a stream": ("[tables.sites]", "[tables.clicks]", 17, "'clicks' is already a stream", "one set of names"),
    "a bad name": ("[streams.ticks]", "[streams.my-ticks]", 14, "'my-ticks' can't be a name", "letters, digits"),
    "a list of queries": ("[queries.few]", "[[queries]]", 24, "[[queries]] is a list", "[queries.name]"),
    "no module:name": ('"judges:odd"', '"judges.odd"', 22, 'must be "module:name"', "beside this file"),
    "no such module": ('"judges:odd"', '"juges:odd"', 22, "no module 'juges'", "juges.py beside app.toml"),
    "no such function": ('"judges:odd"', '"judges:ood"', 22, "'judges' has no 'ood'", "did you mean 'odd'"),
    "not a function": ('"judges:odd"', '"judges:limit"', 22, "not a function", "called with columns"),
    "a module that needs another": ('"judges:odd"', '"broken:odd"', 22, "No module named 'nosuchthing'", "install"),
    "a module that raises": ('"judges:odd"', '"failing:odd"', 22, "ZeroDivisionError", 'import failing'),
    "a function named like a table": ("odd = ", "sites = ", 22, "'sites' is already a stream or a table", "another name"),
    "from an unknown stream": ('from = "clicks"', 'from = "click"', 25, "no stream 'click'", "did you mean 'clicks'"),
    "both sql and from": ('from = "clicks"', 'from = "clicks"\nsql = "SELECT 1"', 26, "both 'sql' and 'from'", "either"),
    "neither sql nor from": ('from = "clicks"\n', "", 24, "neither 'sql' nor 'from'", "either"),
    "where beside sql": ('policy = "agreedy"', 'where = ["x"]', 34, "'where' goes with 'from'", "WHERE"),
    "no such policy": ('"agreedy"', '"greedy"', 34, "no policy 'greedy'", "did you mean 'agreedy'"),
    "no cells": ("cells = 2", "cells = 0", 35, "at least 1", "one per core"),
    "cells of a filter": ('from = "clicks"', 'from = "clicks"\ncells = 2', 26, "a filter has none", "leave it out"),
    "a bad trigger": ('"available now"', '"now"', 36, "trigger 'now' is not a duration", "available now"),
    "no sink": ('sink = { format = "console" }\n', "", 29, "'sink' is missing", 'format = "parquet"'),
    "a sink without a path": (', path = "out/few" }', " }", 27, "needs 'path'", 'path = "out/few"'),
    "a bad mode": ('format = "console" }', 'format = "console", mode = "apend" }', 37, "no output mode 'apend'", "'append'"),
    "two queries, one folder": (
        'sink = { format = "console" }', 'sink = { format = "parquet", path = "out/few" }', 37, "same folder as 'few'", "own"
    ),
    "nothing to restart from": ('checkpoint = "out/checkpoints"\n', "", 26, "no 'checkpoint'", "restart"),
    "a module that ends the program": ('"judges:odd"', '"ending:odd"', 22, "SystemExit: 3", "import ending"),
    "no port": ("metrics = 0", 'metrics = "everywhere"', 2, "'everywhere' is not a port", "9108"),
    "a port out of reach": ("metrics = 0", "metrics = 99999", 2, "'99999' is not a port", "9108"),
    "true for a port": ("metrics = 0", "metrics = true", 2, "'metrics' must be a whole number or text", "9108"),
    "a list of numbers": ('"odd(id)", "id > 3"', '"odd(id)", 3', 26, "list of texts, and holds a whole number", "quotes"),
    "not UTF-8": ("checkpoint =", "# caf\udce9\ncheckpoint =", 1, "not UTF-8", "save the file"),
    "nested spark settings": ('"spark.sql.shuffle.partitions" = 2', "sql.shuffle.partitions = 2", 4, "'sql' is a table", "quotes"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_file_is_told_with_line_and_remedy(tmp_path, kind):
    good, bad, line, message, remedy = BAD[kind]
    assert GOOD.count(good) == 1
    done = CliRunner().invoke(command, ["explain", str(write(tmp_path, GOOD.replace(good, bad)))])
    told = re.fullmatch(r"thalweg: app\.toml:(\d+): (.*)\n  hint: (.*)\n", done.stderr)
    assert told, done.stderr
    assert (done.exit_code, int(told[1])) == (2, line)
    assert message in told[2]
    assert remedy in told[3]


def test_the_command_says_it_without_a_traceback(tmp_path):
    path = write(tmp_path, GOOD.replace("cells = 2", "cels = 2"))
    for verb in ("run", "explain"):
        done = CliRunner().invoke(command, [verb, str(path)])
        assert done.exit_code == 2
        assert re.search(
            r"thalweg: app\.toml:35: query 'joined': unknown setting 'cels'\n  hint: did you mean 'cells'", done.stderr
        )
        assert "Traceback" not in done.stderr
    done = CliRunner().invoke(command, ["run", str(tmp_path / "none.toml")])
    assert (done.exit_code, "thalweg init" in done.stderr) == (2, True)


def test_each_file_has_its_own_modules(tmp_path):
    for k in range(2):
        (tmp_path / str(k)).mkdir()
        path = write(tmp_path / str(k), GOOD)
        (tmp_path / str(k) / "judges.py").write_text(f"def odd(id): return {k}\n")
        assert read(path).loaded["odd"](1) == k


def test_init_writes_an_application_that_reads_and_touches_nothing(tmp_path):
    done = CliRunner().invoke(command, ["init", str(tmp_path / "new")])
    assert done.exit_code == 0
    app = read(tmp_path / "new" / "app.toml")
    assert list(app.queries) == ["strange_clicks", "clicks_before_buys"]
    again = CliRunner().invoke(command, ["init", str(tmp_path / "new")])
    assert again.exit_code == 2
    assert "already exists" in again.stderr


def test_lines_of_nested_and_dotted_keys():
    text = 'a.b = 1\n[c]\nd = [\n  "x = 1",\n]\n"e f" = { g = 1 }\n\'h\'.i = 2\n[[j]]\nk = 1\n'
    assert line_of(text, ("a", "b")) == 1
    assert line_of(text, ("c", "d")) == 3
    assert line_of(text, ("c", "e f", "g")) == 6
    assert line_of(text, ("c", "h", "i")) == 7
    assert line_of(text, ("j", "k")) == 9
    assert line_of(text, ("nowhere",)) == 1
