"""Control files: replaced at once, merged, unreadable ones ignored, one for each query; and a worker that obeys one."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructField, StructType

import thalweg as tw
from thalweg import optimize
from thalweg.plan import Operator, Pipeline
from thalweg.spark.control import Control
from thalweg.spark.filters import STATS, FilterTask


def test_orders_are_merged_and_read_back(tmp_path):
    control = Control(str(tmp_path), "a query: with / odd (names)")
    assert control.read() == {}
    control.write(frozen=[1, 0])
    control.write(learned={"order": [0, 1]})
    assert Control(str(tmp_path), "a query: with / odd (names)").read() == {
        "frozen": [1, 0],
        "learned": {"order": [0, 1]},
    }
    assert len(list(tmp_path.iterdir())) == 1


def test_queries_that_differ_late_do_not_share_a_file(tmp_path):
    one, two = Control(str(tmp_path), "x" * 300 + "1"), Control(str(tmp_path), "x" * 300 + "2")
    one.write(frozen=[0])
    assert two.read() == {}


def test_a_broken_file_is_no_order(tmp_path):
    control = Control(str(tmp_path), "q")
    control.path.write_text("{half")
    assert control.read() == {}


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

    def run() -> dict:
        batches = [
            pa.record_batch({"kind": kind[i : i + 1000], "x": kind[i : i + 1000] * 0}) for i in range(0, 8000, 1000)
        ]
        return json.loads(list(task.run(iter(batches)))[-1].column(STATS)[0].as_py())

    learned = run()
    assert len(learned["classes"]) == 2
    Control(str(tmp_path), "kept").write(frozen="classes")
    frozen = run()
    assert [c["route"] for c in frozen["classes"]] == [c["route"] for c in learned["classes"]]
    assert (frozen["why"], frozen["to_change"], frozen["learned"]) == ("frozen", "thaw()", None)
    assert frozen["tally"]["extra"] == [0, 0]
    assert sum(frozen["tally"]["calls"]) == 8000, "each tuple meets only the predicate that drops it"
    Control(str(tmp_path), "kept").write(frozen=None)
    assert run()["why"] != "frozen"


@pytest.mark.parametrize("policy", ["auto", "agreedy", "mesh"])
def test_what_another_version_learned_is_no_reason_to_fail(tmp_path, policy):
    """A record that does not say this version's format is as good as none, and the user hears of it once."""
    schema = StructType([StructField("kind", LongType())])
    predicates = [tw.pred(f, "kind") for f in (kind_zero, kind_one)]
    pipeline = Pipeline("s", tuple(Operator(p.name) for p in predicates))
    key = f"older {policy}"
    older = optimize.make(policy, pipeline, 1).snapshot()
    del older["version"]
    Control(str(tmp_path), key).write(learned=older)
    task = FilterTask(key, pipeline, predicates, policy, 1, schema, "UTC", str(tmp_path))

    def told() -> list[str]:
        (stats,) = task.run(iter([pa.record_batch({"kind": [0, 1, 0, 1]})]))  # no row passes both
        return [e["kind"] for e in json.loads(stats.column(STATS)[0].as_py())["events"]]

    assert told() == ["begin anew"]
    assert told() == []  # the worker now has a record of its own
