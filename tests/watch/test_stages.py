"""The stages of a batch add up, and the words name the one that takes most of it."""

import pytest

from thalweg.contract.report import InputReport, OperatorReport, TaskReport, Timing
from thalweg.watch.bottleneck import lines, spent
from thalweg.watch.stages import STAGES, busy, stages
from thalweg.watch.view import BatchView


def task(stage, began, **steps):
    return TaskReport(stage, 3, 0, (), timing=Timing(began, began + sum(steps.values()), steps, steps))


SPARK = {"triggerExecution": 10_000, "addBatch": 8_000, "latestOffset": 500, "walCommit": 700, "commitOffsets": 800}
"""The job runs from 101.2 to 109.2."""
BEGAN = {"began": 100_000}


def test_every_second_of_the_job_has_one_stage():
    reports = [
        task("pack", 102.2, source=1.0, pack=1.0),  # two packing tasks share two cores
        task("pack", 102.2, source=0.5, pack=1.5),
        task("cell", 104.7, receive=0.5, load=0.25, join=1.0, relations=0.25, save=0.5),
        task("unpack", 107.2, unpack=0.25, write=0.25),
    ]
    found = stages(SPARK | BEGAN, reports)
    assert found.pop("trigger") == 10
    assert found == pytest.approx(
        {
            "source": 0.5 + 0.75, "pack": 1.25, "shuffle": 0.5 + 0.5, "state load": 0.25, "join": 1.0, "relations": 0.25,
            "state commit": 0.5, "unpack": 0.25, "sink": 0.25 + 1.5, "spark": 1.5 + 1.0,
        }
    )  # fmt: skip
    assert sum(found.values()) == pytest.approx(10)
    assert busy(reports)["source"] == 1.5


def test_a_step_that_waits_counts_only_if_nothing_is_at_work():
    cell = task("cell", 102.2, join=1.0, send=2.0)
    alone = stages(SPARK | BEGAN, [cell])
    assert (alone["unpack"], alone["sink"]) == pytest.approx((2.0, 4.0))
    taken = stages(SPARK | BEGAN, [cell, task("unpack", 103.2, unpack=0.5, write=1.5)])
    assert (taken["unpack"], taken["sink"]) == pytest.approx((0.5, 5.5))


def test_the_commit_of_sparks_store_follows_the_cell():
    found = stages(SPARK | BEGAN | {"stateCommit": 2_000}, [task("cell", 102.2, join=1.0, save=0.5)])
    assert found["state commit"] == pytest.approx(2.5)
    assert sum(found[s] for s in STAGES) == pytest.approx(10)


def test_tasks_on_a_machine_with_another_clock_do_not_count_twice():
    found = stages(SPARK | BEGAN, [task("cell", 50.0, join=1.0)])
    assert sum(found[s] for s in STAGES) == pytest.approx(10)


def batch(number=1, seen=("slow", 3.0), **seconds):
    whole = dict.fromkeys(STAGES, 0.0) | seconds
    own = InputReport("a", rows_in=6_000, operators=(OperatorReport(seen[0], seconds=seen[1]), OperatorReport("quick")))
    return BatchView(number, (own,), (), 5, {"trigger": sum(whole.values()), **whole}, {"pack": 4.0})


def test_words():
    assert lines(spent([])) == []
    assert lines(spent([batch(pack=4.0, spark=1.0)])) == [
        ("time", "pack takes 80% of a batch (4.00 of 5.00 s): slow takes 75% of it")
    ]
    (time, size) = lines(spent([batch(seen=("quick", 0.1), pack=0.1, sink=0.2, spark=0.5, join=0.0)]))
    assert time == (
        "time",
        "spark takes 62% of a batch (0.50 of 0.80 s): Spark's planning and logs, and starting its jobs: the same for every batch",
    )
    assert size == (
        "batch size",
        "12% of a batch is work on its 6,000 rows, the rest comes with every batch: 7 times the rows in a batch give up to "
        "4.0 times the rows a second",
    )


def test_the_first_batch_is_no_measure():
    first, later = batch(0, spark=20.0), batch(1, spark=1.0)
    assert spent([first, later]).trigger == 1.0
    assert spent([first]).trigger == 20.0
