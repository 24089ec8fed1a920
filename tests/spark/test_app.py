"""`thalweg run` as a user runs it: files in, files out, SIGTERM in between, a second run that goes on."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from urllib.request import urlopen

import pyarrow.dataset as ds
import pytest
from tests.terminal import Terminal

from thalweg.app import build
from thalweg.app.appfile import read
from thalweg.app.run import start
from thalweg.app.values import AppError

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

APP = """metrics = 0
checkpoint = "out/checkpoints"
[spark]
"spark.master" = "local[2]"
"spark.sql.shuffle.partitions" = 2
[streams.events]
format = "json"
path = "events"
schema = "ts timestamp, id long, key long"
time = "ts"
lateness = "1 second"
options = { maxFilesPerTrigger = 1 }
[tables.names]
format = "csv"
path = "names.csv"
schema = "key long, name string"
[functions]
odd = "judges:odd"
late = "judges:late"
[queries.filtered]
from = "events"
where = ["odd(id)", "late", "id < 900"]
sink = { format = "parquet", path = "out/filtered" }
trigger = "TRIGGER"
[queries.named]
sql = "SELECT e.id, n.name FROM events [NOW] AS e, names AS n WHERE e.key = n.key AND odd(e.id)"
sink = { format = "parquet", path = "out/named" }
trigger = "TRIGGER"
"""


def events(folder, numbers):
    folder.mkdir(exist_ok=True)
    for number in numbers:
        lines = [
            json.dumps({"ts": f"2026-01-01 00:00:{number:02}", "id": i, "key": i % 10})
            for i in range(number * 100, number * 100 + 100)
        ]
        partial = folder / f".{number}"
        partial.write_text("\n".join(lines))
        partial.rename(folder / f"{number:03}.json")


def application(tmp_path, trigger):
    (tmp_path / "judges.py").write_text("def odd(id): return id % 2 == 1\ndef late(id): return id > 50\n")
    (tmp_path / "names.csv").write_text("\n".join(f"{k},name {k}" for k in range(5)))
    (tmp_path / "app.toml").write_text(APP.replace("TRIGGER", trigger))
    return [sys.executable, "-m", "thalweg.cli", "run", str(tmp_path / "app.toml")]


def ids(folder):
    """Of the files that are committed: what Spark itself would read."""
    logs = [p for p in folder.glob("_spark_metadata/*") if not p.name.startswith(".")]
    files = {json.loads(line)["path"].removeprefix("file://") for p in logs for line in p.read_text().splitlines()[1:]}
    return sorted(ds.dataset(sorted(files)).to_table(columns=["id"])["id"].to_pylist()) if files else []


def filtered(rows):
    return [i for i in range(rows) if i % 2 and 50 < i < 900]


def named(rows):
    return [i for i in range(rows) if i % 2 and i % 10 < 5]


@pytest.mark.long
def test_watch_on_a_terminal_stop_by_sigterm_and_go_on(tmp_path):
    events(tmp_path / "events", range(4))
    deadline = time.monotonic() + 400
    with Terminal([*application(tmp_path, "0 seconds"), "--watch"]) as terminal:
        while time.monotonic() < deadline and terminal.read(0.5):
            written = ids(tmp_path / "out/filtered") == filtered(400) and ids(tmp_path / "out/named") == named(400)
            if written and re.search(r"named +running +batch 3", terminal.shown):
                break
        assert terminal.process.poll() is None, terminal.shown[-3000:]
        told = re.search(r"metrics at (http://127\.0\.0\.1:\d+/metrics)", terminal.shown)
        whole = [f'thalweg_rows_in_total{{query="{name}"}} 400.0' for name in ("filtered", "named")]
        scraped = ""
        while time.monotonic() < deadline and not all(line in scraped for line in whole) and terminal.read(0.5):
            scraped = urlopen(told[1], timeout=30).read().decode()  # the board hears of a batch after it is written
        terminal.process.send_signal(signal.SIGTERM)
        while time.monotonic() < deadline and terminal.read(1):
            pass
        assert terminal.process.wait(60) == 130, terminal.shown[-3000:]
    assert all(line in scraped for line in whole), scraped
    for words in (
        "filtered   running",
        "calls saved",
        "1. odd",
        "Spark's own messages",
        "continues from the checkpoints",
    ):
        assert words in terminal.shown
    assert "Traceback" not in terminal.shown
    events(tmp_path / "events", range(4, 12))
    done = subprocess.run(application(tmp_path, "available now"), capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr[-3000:]
    assert re.findall(r"^filtered  batch (\d+) ", done.stdout, re.M)[0] == "4"
    assert ids(tmp_path / "out/filtered") == filtered(1200)
    assert ids(tmp_path / "out/named") == named(1200)


def test_queries_of_a_file_run(tmp_path, spark):
    events(tmp_path / "events", range(2))
    application(tmp_path, "available now")
    app = read(tmp_path / "app.toml")
    build.send_modules(app)
    inputs = build.frames(app, spark)
    for query in app.queries.values():
        start(app, query, build.dataframe(app, query, inputs)).awaitTermination()
    assert ids(tmp_path / "out/filtered") == filtered(200)
    assert ids(tmp_path / "out/named") == named(200)


@pytest.mark.parametrize(
    ("good", "bad", "line", "message", "hint"),
    [
        ('time = "ts"', 'time = "tss"', 10, "stream 'events' has no column 'tss'", "did you mean 'ts'"),
        ("ts timestamp, id long", "ts timestmp, id long", 6, "stream 'events': ", None),
        ("odd(e.id)", "ood(e.id)", 26, "'ood'", "did you mean 'odd'"),
        ("FROM events [NOW]", "FROM event [NOW]", 26, "'event'", "did you mean 'events'"),
        ('"late", ', '"idd > 3", ', 22, "query 'filtered': ", None),
        ("odd(id)", "odd(idd)", 22, "'idd'", "did you mean 'id'"),
    ],
)
def test_what_only_spark_knows_is_told_with_its_line(tmp_path, spark, good, bad, line, message, hint):
    (tmp_path / "events").mkdir()
    application(tmp_path, "available now")
    path = tmp_path / "app.toml"
    path.write_text(path.read_text().replace(good, bad))
    app = read(path)

    def made():
        inputs = build.frames(app, spark)
        return [build.dataframe(app, query, inputs) for query in app.queries.values()]

    with pytest.raises(AppError) as raised:
        made()
    assert raised.value.message.startswith(f"app.toml:{line}: "), raised.value.message
    assert message in raised.value.message
    if hint is not None:
        assert hint in str(raised.value.hint)
