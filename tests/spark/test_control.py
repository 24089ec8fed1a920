"""Control files: replaced in one step, malformed ones ignored with a word, two for each query; and a worker that obeys."""

from __future__ import annotations

import json
import tempfile
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructField, StructType

import thalweg as tw
from thalweg import optimize
from thalweg.contract.report import TaskReport
from thalweg.plan import Operator, Pipeline
from thalweg.spark.control import Control, Orders, default_folder
from thalweg.spark.filters import STATS, FilterTask


def test_orders_and_what_was_learned_are_kept_apart(tmp_path):
    key = "a query: with / odd (names)"
    control, orders = Control(str(tmp_path), key), Orders(True, {"a": ("c", "b")}, {"a": ("p",)})
    assert control.orders() == (Orders(), "")
    assert control.learned() is None
    control.order(orders)
    control.learn({"order": [0, 1]})
    other = Control(str(tmp_path), key)
    assert other.orders() == (orders, "")
    assert other.learned() == {"order": [0, 1]}
    assert len(list(tmp_path.iterdir())) == 2


def test_no_order_is_lost_while_the_board_writes_what_was_learned(tmp_path):
    control = Control(str(tmp_path), "raced")
    over = threading.Event()

    def learn():
        while not over.is_set():
            Control(str(tmp_path), "raced").learn({"order": [1, 0]})

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
    assert control.learned() is None or isinstance(control.learned(), dict)


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
    assert (str(frozen.routing.why), str(frozen.routing.to_change), told.learned) == ("frozen", "thaw()", None)
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
    Control(str(tmp_path), key).learn(older)
    task = FilterTask(key, pipeline, predicates, policy, 1, schema, "UTC", str(tmp_path))

    def told() -> list[str]:
        (stats,) = task.run(iter([pa.record_batch({"kind": [0, 1, 0, 1]})]))  # no row passes both
        return [e["kind"] for e in json.loads(stats.column(STATS)[0].as_py())["events"]]

    assert told() == ["begin anew"]
    assert told() == []  # the worker now has a record of its own
