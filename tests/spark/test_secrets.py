"""A password planted in every option is in nothing that Thalweg shows: reports, events, metrics, logs, errors, HTML."""

from __future__ import annotations

import io
import logging
import sqlite3
import urllib.request
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

import pytest
from confluent_kafka import Producer
from rich.console import Console

import thalweg as tw
from thalweg.app.appfile import read
from thalweg.app.build import frames, safe
from thalweg.spark.board import board
from thalweg.spark.secrets import secrets, struck, unlogged

PLANTED = "hunter2-planted"
DERBY = f"jdbc:derby:memory:thalweg-secrets;create=true;user=me;password={PLANTED}"


@contextmanager
def heard():
    """All that is logged inside, by whatever logger, at level DEBUG."""
    text, root = io.StringIO(), logging.getLogger()
    handler, levels = logging.StreamHandler(text), {}
    for name in ("", "py4j", "py4j.clientserver", "py4j.java_gateway", "thalweg", "pyspark"):
        logger = logging.getLogger(name)
        levels[logger] = logger.level
        logger.setLevel(logging.DEBUG)
    root.addHandler(handler)
    try:
        yield text
    finally:
        root.removeHandler(handler)
        for logger, level in levels.items():
            logger.setLevel(level)


@pytest.fixture(scope="module")
def servers():
    cluster = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    (broker,) = cluster.list_topics(timeout=10).brokers.values()
    for k in range(20):
        cluster.produce("orders", value=f'{{"ts": "2026-01-01T00:00:{k:02}Z", "k": {k % 4}}}'.encode(), partition=0)
    assert cluster.flush(10) == 0
    yield f"{broker.host}:{broker.port}"
    del cluster


def options(servers):
    """A password in each kind of option that Kafka's clients know."""
    return {"log_level": 0, "sasl.password": PLANTED, "ssl.key.password": PLANTED, "ssl.keystore.password": PLANTED,
            "sasl.oauthbearer.client.secret": PLANTED}  # fmt: skip


@pytest.mark.long
def test_a_running_query_shows_no_password(spark, servers, tmp_path):
    spark.conf.set("spark.my.database.password", PLANTED)
    shops = spark.createDataFrame([(k, f"town {k}") for k in range(4)], "k LONG, town STRING")
    shops.write.format("jdbc").mode("overwrite").options(url=DERBY, dbtable="shops", password=PLANTED).save()
    table = spark.read.format("jdbc").options(url=DERBY, dbtable="shops", password=PLANTED).load()
    database = str(tmp_path / "db")
    with sqlite3.connect(database) as made:
        made.execute("CREATE TABLE totals (town TEXT PRIMARY KEY, n INTEGER)")

    def connect(password=PLANTED):
        return sqlite3.connect(database)

    with heard() as log:
        kafka = tw.kafka(servers, options(servers))
        orders = kafka.read_stream("orders", schema="ts TIMESTAMP, k LONG")
        text = "SELECT s.town, count(*) AS n FROM o [RANGE 1 HOUR] AS o, s WHERE o.k = s.k GROUP BY s.town"
        df = tw.sql(text, o=tw.stream(orders, time="ts"), s=table, cells=1, name="planted")
        upsert = tw.upsert("totals", "town", format="database", connect=connect)
        writer = df.writeStream.foreachBatch(upsert).option("checkpointLocation", str(tmp_path / "c"))
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(120)
        while not board.entry("planted").runs:
            assert query.exception() is None
        handle = tw.query("planted")
        handle.report(str(tmp_path / "report.html"))
        serving = tw.metrics(0)
        try:
            scraped = urllib.request.urlopen(f"http://127.0.0.1:{serving.port}/metrics").read().decode()
        finally:
            serving.close()
        with redirect_stdout(io.StringIO()) as plan:
            df.explain(True)
        shown = {
            "repr": repr(kafka) + repr(handle) + repr(upsert) + repr(df),
            "explain": str(handle.explain()),
            "stats": str(handle.stats()),
            "events": str(handle.events()),
            "plan": str(handle.plan()),
            "html": (tmp_path / "report.html").read_text() + handle._repr_html_(),
            "metrics": scraped,
            "progress": "".join(p.json for p in query.recentProgress),
            "spark's plan": plan.getvalue(),
        }
    with sqlite3.connect(database) as made:
        # The last instant is still open.
        assert made.execute("SELECT count(*), sum(n) FROM totals").fetchall() == [(4, 19)]
    assert "thalweg_rows_in_total" in shown["metrics"]
    assert "Command to send" in log.getvalue(), "py4j goes on logging all else"
    shown["log"] = log.getvalue()
    shown["checkpoint"] = "".join(
        f.read_bytes().decode(errors="replace") for f in (tmp_path / "c").rglob("*") if f.is_file()
    )
    assert [what for what, said in shown.items() if PLANTED in said] == []
    spark.conf.unset("spark.my.database.password")


def test_py4j_would_have_logged_it(spark):
    with heard() as log, unlogged():
        spark.read.option("password", PLANTED)
    assert PLANTED not in log.getvalue()
    with heard() as log:
        spark.read.option("password", PLANTED)
    assert PLANTED in log.getvalue(), "py4j no longer logs options: SECURITY.md and unlogged() can go"


APP = f"""
checkpoint = "check"
[spark]
"spark.sql.catalog.my_cat.password" = "{PLANTED}"
[streams.s]
format = "rate"
options = {{ password = "{PLANTED}" }}
time = "timestamp"
[tables.t]
format = "jdbc"
options = {{ url = "jdbc:derby:memory:nowhere;user=me;password={PLANTED}", dbtable = "t" }}
[queries.q]
from = "s"
where = ["value > 1"]
sink = {{ format = "noop", options = {{ token = "{PLANTED}", "kafka.sasl.jaas.config" = 'x password="{PLANTED}";' }} }}
"""


def test_an_applications_errors_show_no_password(spark, tmp_path):
    path = tmp_path / "app.toml"
    path.write_text(APP)
    app = read(path)
    with heard() as log, pytest.raises(tw.DefinitionError, match=r"table 't'") as told:
        frames(app, spark)
    assert PLANTED not in str(told.value) + repr(app) + log.getvalue()
    assert safe(app, f"x password={PLANTED}; failed") == "x password=***; failed"
    path.write_text(APP.replace(f'{{ password = "{PLANTED}" }}', f'"password={PLANTED}"'))
    with pytest.raises(tw.DefinitionError, match="'options' must be a table, not text") as told:
        read(path)
    assert PLANTED not in str(told.value)


def test_a_failing_application_shows_no_password(tmp_path, monkeypatch):
    """The command's own words for a query that failed with its options in the message."""
    from thalweg.app import run

    class Failed:
        def exception(self):
            return RuntimeError(f"can't log in: token {PLANTED} in jdbc:x://me:{PLANTED}@host")

    path = tmp_path / "app.toml"
    path.write_text(APP)
    console = Console(file=io.StringIO(), width=200)
    assert run.failures(read(path), {"q": Failed()}, console)
    assert "can't log in" in console.file.getvalue()
    assert PLANTED not in console.file.getvalue()


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("url", "jdbc:postgresql://me:s3cret@host/db", "s3cret"),
        ("url", "jdbc:mysql://host/db?user=me&password=s3cret&ssl=true", "s3cret"),
        ("url", "jdbc:sqlserver://host;user=me;PASSWORD=s3cret;", "s3cret"),
        ("kafka.sasl.jaas.config", 'module required username="me" password="s3cret";', "s3cret"),
        ("fs.s3a.secret.key", "s3cret", "s3cret"),
        ("fs.s3a.access.key", "s3cret", "s3cret"),
        ("ssl.key.pem", "s3cret", "s3cret"),
        ("spark.hadoop.fs.azure.account.key.x.dfs", "AccountKey=s3cret", "s3cret"),
    ],
)
def test_secrets_are_found_in_names_and_in_texts(name, value, found):
    assert found in secrets({name: value})
    assert found not in struck(f"it said '{value}' and {found}", {name: value})
    assert struck("host db me", {"url": "jdbc:postgresql://host/db", "user": "me", "dbtable": "t"}) == "host db me"


def test_documented():
    told = Path("SECURITY.md").read_text()
    assert "py4j" in told
    assert "spark-submit" in told
