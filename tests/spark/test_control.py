"""Control files: replaced in one step, malformed ones ignored with a word, two for each query; and a worker that obeys."""

from __future__ import annotations

import json
import tempfile
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructField, StructType

import thalweg as tw
from thalweg import optimize
from thalweg.contract import learned
from thalweg.contract.report import TaskReport
from thalweg.engine.placing import ByShares
from thalweg.execute.shape import Shape
from thalweg.language import Source
from thalweg.language.bind import bind
from thalweg.plan import Operator, Pipeline
from thalweg.plan.shares import Shares
from thalweg.spark import filters, pack
from thalweg.spark.asked import Asked
from thalweg.spark.board import Entry
from thalweg.spark.control import Control, Orders, default_folder
from thalweg.spark.filters import STATS, FilterTask
from thalweg.spark.pack import PackTask


def test_orders_and_what_was_learned_are_kept_apart(tmp_path):
    key = "a query: with / odd (names)"
    control, orders = Control(str(tmp_path), key), Orders(True, {"a": ("c", "b")}, {"a": ("p",)})
    assert control.orders() == (Orders(), "")
    assert control.learned("a") is None
    control.order(orders)
    control.learn({"a": {"order": [0, 1]}})
    other = Control(str(tmp_path), key)
    assert other.orders() == (orders, "")
    assert other.learned("a") == {"order": [0, 1]}
    assert other.learned("b") is None
    assert len(list(tmp_path.iterdir())) == 2


def test_no_order_is_lost_while_the_board_writes_what_was_learned(tmp_path):
    control = Control(str(tmp_path), "raced")
    over = threading.Event()

    def learn():
        while not over.is_set():
            Control(str(tmp_path), "raced").learn({"a": {"order": [1, 0]}})

    writer = threading.Thread(target=learn)
    writer.start()
    try:
        for _ in range(300):
            control.order(Orders(frozen=True))
            assert control.orders() == (Orders(frozen=True), "")
            control.order(Orders())
            assert control.orders() == (Orders(), "")
    finally:
        over.set()
        writer.join()


def test_queries_that_differ_late_do_not_share_a_file(tmp_path):
    one, two = Control(str(tmp_path), "x" * 300 + "1"), Control(str(tmp_path), "x" * 300 + "2")
    one.order(Orders(frozen=True))
    assert two.orders() == (Orders(), "")


MALFORMED = [
    "{half", "[]", "null", "7", '"x"', '{"frozen": 1}', '{"frozen": "classes"}', '{"frozen": true, "routes": []}',
    '{"frozen": true, "routes": {"": 3}}', '{"frozen": true, "routes": {"": [0, 1]}}', '{"filters": {"a": "b"}}',
]  # fmt: skip


@pytest.mark.parametrize("content", MALFORMED)
def test_a_malformed_file_is_no_order_and_says_so(tmp_path, content):
    control = Control(str(tmp_path), "q")
    control.orders_path.write_text(content)
    control.learned_path.write_text(content)
    orders, problem = control.orders()
    assert orders == Orders()
    assert str(control.orders_path) in problem
    assert control.learned("frozen") is control.learned("") is None


def test_only_a_folder_of_our_own_is_used(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    mine = Path(default_folder.__wrapped__())
    assert mine.stat().st_mode & 0o777 == 0o700
    assert Path(default_folder.__wrapped__()) == mine
    mine.chmod(0o777)
    assert Path(default_folder.__wrapped__()) != mine
    mine.rmdir()
    (tmp_path / "elsewhere").mkdir()
    mine.symlink_to(tmp_path / "elsewhere")
    assert Path(default_folder.__wrapped__()) not in (mine, tmp_path / "elsewhere")


def kind_zero(kind: int) -> bool:
    return kind == 0


def kind_one(kind: int) -> bool:
    return kind == 1


def test_a_worker_keeps_the_routes_of_all_classes_while_frozen(tmp_path):
    """The worker's side alone, without a cluster: learn classes, obey `frozen="classes"`, resume."""
    kind = np.random.default_rng(3).integers(0, 2, 8000)
    schema = StructType([StructField("kind", LongType()), StructField("x", LongType())])
    predicates = [tw.pred(f, "kind") for f in (kind_zero, kind_one)]
    pipeline = Pipeline("s", tuple(Operator(p.name) for p in predicates))
    task = FilterTask("kept", pipeline, predicates, "mesh", 1, schema, "UTC", str(tmp_path))

    def run() -> TaskReport:
        batches = [
            pa.record_batch({"kind": kind[i : i + 1000], "x": kind[i : i + 1000] * 0}) for i in range(0, 8000, 1000)
        ]
        return TaskReport.of(json.loads(list(task.run(iter(batches)))[-1].column(STATS)[0].as_py()))

    (learned,) = run().inputs
    assert len(learned.routing.classes) == 2
    Control(str(tmp_path), "kept").order(Orders(frozen=True))
    told = run()
    (frozen,) = told.inputs
    assert [c.route for c in frozen.routing.classes] == [c.route for c in learned.routing.classes]
    assert (str(frozen.routing.why), str(frozen.routing.to_change), told.learned) == ("frozen", "thaw()", {})
    assert [o.extra for o in frozen.operators] == [0, 0]
    assert sum(o.calls for o in frozen.operators) == 8000, "each tuple meets only the predicate that drops it"
    Control(str(tmp_path), "kept").order(Orders())
    assert not run().inputs[0].routing.frozen


@pytest.mark.parametrize(
    "content",
    ["[]", '{"frozen": true, "routes": {"": ["kind_zero"]}}', '{"frozen": true, "routes": {"": ["x", "kind_one"]}}'],
)
def test_a_worker_ignores_orders_that_make_no_sense_and_says_so_once(tmp_path, content):
    schema = StructType([StructField("kind", LongType())])
    predicates = [tw.pred(f, "kind") for f in (kind_zero, kind_one)]
    pipeline = Pipeline("s", tuple(Operator(p.name) for p in predicates))
    key = f"senseless {content}"
    Control(str(tmp_path), key).orders_path.write_text(content)
    task = FilterTask(key, pipeline, predicates, "written", 1, schema, "UTC", str(tmp_path))

    def told() -> TaskReport:
        (stats,) = task.run(iter([pa.record_batch({"kind": [0, 1, 0, 1]})]))
        return TaskReport.of(json.loads(stats.column(STATS)[0].as_py()))

    first, second = told(), told()
    assert not first.inputs[0].routing.frozen
    assert [e.kind for e in first.events] == ["order ignored"]
    assert second.events == ()


@pytest.mark.parametrize("policy", ["auto", "agreedy", "mesh"])
def test_what_another_version_learned_is_no_reason_to_fail(tmp_path, policy):
    """A record that does not say this version's format is as good as none, and the user hears of it once."""
    schema = StructType([StructField("kind", LongType())])
    predicates = [tw.pred(f, "kind") for f in (kind_zero, kind_one)]
    pipeline = Pipeline("s", tuple(Operator(p.name) for p in predicates))
    key = f"older {policy}"
    older = optimize.make(policy, pipeline, 1).snapshot()
    del older["version"]
    Control(str(tmp_path), key).learn({"": older})
    task = FilterTask(key, pipeline, predicates, policy, 1, schema, "UTC", str(tmp_path))

    def told() -> list[str]:
        (stats,) = task.run(iter([pa.record_batch({"kind": [0, 1, 0, 1]})]))  # no row passes both
        return [e["kind"] for e in json.loads(stats.column(STATS)[0].as_py())["events"]]

    assert told() == ["begin anew"]
    assert told() == []  # the worker now has a record of its own


def few(kind: int) -> bool:
    return kind == 1


def most(kind: int) -> bool:
    return kind != 1


FEW, MOST = tw.pred(few, "kind", name="few"), tw.pred(most, "kind", name="most")
KINDS = StructType([StructField("kind", LongType())])


def filter_task(folder, key):
    pipeline = Pipeline("s", (Operator("most"), Operator("few")))
    return FilterTask(key, pipeline, [MOST, FEW], "agreedy", 1, KINDS, "UTC", str(folder))


def told_by(task: FilterTask, rows: int) -> TaskReport:
    """What a task reports that gets these rows, of which one in fifty passes `few`."""
    batches = [pa.record_batch({"kind": np.arange(at, min(at + 100, rows)) % 50}) for at in range(0, rows, 100)]
    return TaskReport.of(json.loads(list(task.run(iter(batches)))[-1].column(STATS)[0].as_py()))


def test_a_worker_that_saw_little_goes_on_from_what_others_saw(tmp_path):
    """Workers stand in for processes here: each begins with its own memory."""
    task = filter_task(tmp_path, "little and much")
    entry = Entry(Asked("q", "agreedy", False, (), {}), Control(str(tmp_path), task.key))

    def worker(memory, rows):
        filters.remembered.clear()
        filters.remembered.update(memory)
        report = told_by(task, rows)
        entry.add([json.dumps(report.record())])
        return dict(filters.remembered), report

    novice, first = worker({}, 5)
    assert first.inputs[0].routing.route == ("most", "few")
    expert, learned = worker({}, 6000)
    assert learned.inputs[0].routing.route == ("few", "most")
    novice, taught = worker(novice, 50)
    assert taught.inputs[0].routing.route == ("few", "most")
    assert [r["seen"] for r in novice.values()] == [6055], "the record that it went on from counts"
    # The other way round: what a beginner reports is no reason to forget.
    filters.remembered.clear()
    entry.add([json.dumps(first.record())])
    assert entry.control.learned("")["seen"] == 6055
    _, still = worker(expert, 50)
    assert still.inputs[0].routing.route == ("few", "most")


def test_filters_of_a_join_learn_from_other_workers_too(tmp_path):
    text = "SELECT s.kind FROM s [NOW] WHERE most(s.kind) AND few(s.kind)"
    schema = pa.schema([("ts", pa.timestamp("us")), ("kind", pa.int64())])
    query = bind(text, {"s": Source(schema, time="ts")}, {"most": most, "few": few}).plain
    task = PackTask(query, ("s",), "us", ByShares(Shares(())), "agreedy", 1, str(tmp_path), "a join")
    entry = Entry(Asked("q", "agreedy", True, (), {}), Control(str(tmp_path), task.key))
    shape = Shape(query, prefiltered=True, leave=True)

    def worker(rows):
        pack.remembered.clear()
        kinds = np.arange(rows) % 50
        columns = {"ts": pa.array(np.arange(rows), pa.timestamp("us")), "kind": kinds}
        whole = pa.record_batch({c: columns[c] for c in shape.read(0)})
        (sent,) = task.run(iter([whole.slice(at, 100) for at in range(0, rows, 100)]))
        report = TaskReport.of(json.loads(sent.to_pylist()[-1]["stats"]))
        entry.add([json.dumps(report.record())])
        return report.inputs[0].routing.route

    written = worker(5)
    assert written == ("most(s.kind)", "few(s.kind)")
    assert worker(6000) == written[::-1]
    assert worker(5) == written[::-1]


@pytest.mark.parametrize("policy", optimize.names())
@pytest.mark.parametrize("wrong", ["nothing", "of another query", "half"])
def test_a_damaged_record_of_what_was_learned_stops_no_query(tmp_path, policy, wrong):
    task = replace(filter_task(tmp_path, f"damaged {policy} {wrong}"), policy=policy)
    record = learned.record(optimize.make(policy, task.pipeline, 1), 10**6)
    other = Pipeline("s", tuple(Operator(n) for n in "abc"))
    whole = record["learned"]
    record["learned"] = {
        "nothing": {}, "of another query": optimize.make(policy, other, 1).snapshot(), "half": dict(list(whole.items())[:1]),
    }[wrong]  # fmt: skip
    Control(str(tmp_path), task.key).learn({"": record})
    report = told_by(task, 10)
    assert [e.kind for e in report.events][:1] == ["begin anew"]
    assert learned.seen(report.learned[""]) == 10
