"""The report of a query: it renders in a browser, and its numbers are those of the board."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from io import StringIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

import thalweg as tw
from thalweg.watch import explain
from thalweg.watch.panel import panel


@pytest.fixture(scope="module")
def pages(spark, tmp_path_factory):
    """A filter and a join over the same drifting files, and the reports of both."""
    folder = tmp_path_factory.mktemp("report")
    for n in range(4):
        ids = range(n * 3000, n * 3000 + 3000)
        table = {
            "id": ids,
            "k": [i % 50 for i in ids],
            "ts": pa.array([i * 1_000_000 for i in ids], pa.timestamp("us", "UTC")),
        }
        (folder / "in").mkdir(exist_ok=True)
        pq.write_table(pa.table(table), folder / "in" / f"{n}.parquet")

    def source():
        reader = spark.readStream.schema("id long, k long, ts timestamp").option("maxFilesPerTrigger", 1)
        return reader.parquet(str(folder / "in"))

    early = tw.pred(lambda id: (id < 6000) == (id % 20 == 0), name="early <b>")
    late = tw.pred(lambda id: (id >= 6000) == (id % 20 == 1), name="late")
    queries = {
        "filter & report": tw.where(source(), early, late, policy="agreedy", name="filter & report", seed=1),
        "join report": tw.sql(
            "SELECT a.id FROM a [RANGE 30 SECONDS], b [RANGE 30 SECONDS] WHERE a.k = b.k AND whole(a.id) AND known(a.k)",
            a=tw.stream(source(), time="ts"), b=tw.stream(source(), time="ts"), cells=2, name="join report",
            whole=lambda id: id >= 0, known=lambda k: k < 50,
        ),
    }  # fmt: skip
    written = {}
    for name, df in queries.items():
        out = folder / name.replace(" ", "-")
        running = (
            df.writeStream.format("parquet").option("checkpointLocation", f"{out}-checkpoint")
            .trigger(availableNow=True).start(str(out))
        )  # fmt: skip
        running.awaitTermination()
        written[name] = tw.query(name).report(folder / "pages" / f"{out.name}.html")
    return written


def data(page):
    return json.loads(re.search(r"id='data'>(.*?)</script>", page, re.S)[1])


def test_the_numbers_are_those_of_the_board(pages):
    page = pages["filter & report"].read_text()
    handle = tw.query("filter & report")
    stats, events, told = handle.stats(), handle.events(), data(page)
    assert told["facts"]["calls"] == stats.calls.sum()
    assert told["facts"]["rows in"] == 12_000
    assert told["facts"]["events"] == len(events) > 0
    assert [e["after"] for e in told["events"]] == events.after.tolist()
    assert f"<b>{stats.calls.sum():,}</b>" in page
    assert page.count("<tr><td>") >= len(events)
    assert "early &lt;b&gt;" in page
    assert "early <b>" not in re.sub(r"<script.*?</script>", "", page, flags=re.S)
    join = data(pages["join report"].read_text())
    last = tw.query("join report").stats().sort_values("batch").groupby(["cell", "input"]).tail(1)
    assert join["facts"]["rows in"] == last["rows in"].sum()
    assert join["facts"]["batches"] == 4


def test_a_join_draws_its_routes_from_the_newest_batch(pages):
    handle = tw.query("join report")
    view = handle.view()
    routes = [r for path in view.input("a").paths for r in path.routes]
    assert [name for r in routes for name in r.order] == ["whole(a.id)", "known(a.k)", "b"]
    assert [came for r in routes for came, _ in r.flow] == [3000] * 3
    assert [r.order for path in view.input("b").paths for r in path.routes] == [("a",)]
    page = pages["join report"].read_text()
    assert "rows of a [RANGE 30 s] in the newest batch" in page
    assert "place of each predicate of a in the order" in page
    assert data(page)["facts"]["calls"] == handle.filters().calls.sum() == view.calls >= 12_000 * 2
    assert data(page)["facts"]["stored"] == view.stored


@pytest.mark.parametrize("name", ["filter & report", "join report"])
def test_the_live_view_tells_the_same(pages, name):
    handle = tw.query(name)
    view = handle.view()
    console = Console(record=True, width=140, file=StringIO())
    console.print(panel(view, "over", note="note  here"))
    shown = console.export_text()
    assert "12,000" in shown
    assert "note  here" in shown
    if name == "join report":
        assert explain.state(view) in shown
        assert f"{view.rows_out:,}" in shown
        assert f"{view.inputs[0].filters.operators[0].calls:,}" in shown
    else:
        assert f"{view.inputs[0].filters.operators[0].calls:,}" in shown
        assert f"{view.saved_against_spark:.0%} against Spark's chain" in shown
        assert handle.events().after.iloc[-1] in shown


def test_nothing_is_loaded_from_elsewhere(pages):
    for page in pages.values():
        assert not re.search(r"""(?:src|href)=|https?://|@import|url\(""", page.read_text())


PHONE = """<!doctype html><body><iframe id="phone" width="390" height="844" style="border:0"></iframe><script>
phone.onload = () => {
  const page = phone.contentDocument.documentElement, wide = page.scrollWidth
  document.documentElement.innerHTML = page.innerHTML
  document.title = wide
}
phone.srcdoc = %s
</script></body>"""
"""Shows a page as wide as a phone is (a window of the browser can't be), and tells how wide it became."""


@pytest.mark.skipif(not shutil.which("chromium"), reason="no chromium")
@pytest.mark.parametrize("name", ["filter & report", "join report"])
def test_a_browser_renders_it_on_a_phone_with_the_numbers_of_the_events(pages, name, tmp_path):
    (tmp_path / "phone.html").write_text(PHONE % json.dumps(pages[name].read_text()).replace("</", "<\\/"))
    done = subprocess.run(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}",
         "--hide-scrollbars", "--dump-dom", (tmp_path / "phone.html").as_uri()],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    shown = re.sub(r"<script.*?</script>", "", done.stdout, flags=re.S)
    assert shown.count("<svg") >= 3
    assert shown.count("<polyline") >= 4
    assert "NaN" not in shown
    assert int(re.search(r"<title>(\d+)</title>", shown)[1]) <= 390  # wide things scroll inside, the page does not
    events = tw.query(name).events()
    table = re.search(r'<table id="events">(.*?)</table>|None: the query ran as written', shown, re.S)[1] or ""
    rows = [[unescape(c) for c in re.findall(r"<td>(.*?)</td>", row)] for row in table.split("<tr>")[2:]]
    assert [row[2:] for row in rows] == events[["kind", "after", "why"]].values.tolist()
    changed = events[(events.before != events.after) & events.batch.notna()]
    assert shown.count('class="mark"') % max(changed.batch.nunique(), 1) == 0
    facts = data(done.stdout.replace('id="data"', "id='data'"))["facts"]
    cards = re.findall(r"<div><b>([\d,]+)</b>", shown)
    assert [facts["rows in"], facts["results" if name == "join report" else "rows out"]] == [
        int(n.replace(",", "")) for n in cards[:2]
    ]


def test_metrics_tell_the_same(pages):
    from urllib.request import urlopen

    serving = tw.metrics(port=0)
    try:
        text = urlopen(f"http://127.0.0.1:{serving.port}/metrics", timeout=30).read().decode()
    finally:
        serving.close()
    stats = tw.query("filter & report").stats()
    assert 'thalweg_rows_in_total{query="filter & report"} 12000.0' in text
    late = stats[stats.predicate == "late"].calls.sum()
    assert f'thalweg_predicate_calls_total{{predicate="late",query="filter & report"}} {float(late)}' in text
    assert 'thalweg_rows_out_total{query="join report"} 12000.0' in text
    told = dict(re.findall(r'^thalweg_(\w+\{.*query="join report".*\}) (\S+)$', text, re.M))
    join = tw.query("join report").view()
    assert float(told['rows_in_total{query="join report"}']) == sum(i.rows_in for i in join.streams)
    for judged in join.judged:
        key = f'predicate_calls_total{{predicate="{judged.name}",query="join report"}}'
        assert float(told[key]) == judged.calls > 0
    routes = {k: float(v) for k, v in told.items() if k.startswith('route_share{input="a"')}
    assert sum(v for k, v in routes.items() if 'route="b"' in k) == 1.0  # its probes, in all cells
    assert sum(routes.values()) == pytest.approx(2.0)  # and its filters
    assert 'thalweg_state_rows{input="a",query="join report"}' in text
    assert "thalweg_decisions_total" in text
