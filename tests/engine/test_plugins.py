"""Monitors and schedulers plug into the engine: they see what happens, and no choice of theirs changes an answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pytest

import thalweg as tw
from thalweg.contract.batch import Batch
from thalweg.contract.monitor import Monitor
from thalweg.contract.scheduler import Scheduler
from thalweg.contract.visits import Visits
from thalweg.optimize.orders.written import Written
from thalweg.optimize.schedules import DrawnSchedule, Fewest
from thalweg.plan import Ruster
from thalweg.profile.rates.disorder import Disorder

TEXT = "SELECT a.ts AS t, b.ts AS u, a.k FROM a [RANGE 50 MILLISECONDS], b [RANGE 20 MILLISECONDS] WHERE a.k = b.k"
SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.int64())])


def engine(**options) -> tw.Engine:
    return tw.Engine(
        TEXT, {"a": tw.Source(SCHEMA, time="ts", unit="ms"), "b": tw.Source(SCHEMA, time="ts", unit="ms")}, **options
    )


def rows(seed: int, count: int) -> pa.Table:
    random = np.random.default_rng(seed)
    return pa.table({"ts": random.permutation(count), "k": random.integers(0, 5, count)}, schema=SCHEMA)


class Counting:
    """Counts what it is told."""

    name = "counting"

    def __init__(self, alias: str) -> None:
        self.rows = self.met = 0

    def arrived(self, times, rows) -> None:
        assert len(times) == rows.num_rows
        self.rows += len(times)

    def visited(self, visits: Visits) -> None:
        self.met += visits.rows

    def found(self) -> Mapping[str, int]:
        return {"rows": self.rows, "met": self.met}

    def snapshot(self) -> dict[str, int]:
        return dict(self.found())

    def restore(self, record) -> None:
        self.rows, self.met = record["rows"], record["met"]


def test_a_monitor_sees_every_row_and_every_visit() -> None:
    made = engine(monitors=[Counting, Disorder])
    assert isinstance(Counting("a"), Monitor)
    made.push("a", rows(1, 200))
    made.push("b", rows(2, 100))
    found = made.findings()
    assert (found["a"]["counting"], found["b"]["counting"]) == ({"rows": 200, "met": 200}, {"rows": 100, "met": 100})
    assert found["a"]["disorder"]["rows"] == 200


def test_monitors_go_on_after_a_restart() -> None:
    whole, first, second = (engine(monitors=[Disorder]) for _ in range(3))
    one, two = rows(1, 200), rows(3, 200)
    for part in (one, two):
        whole.push("a", part)
    first.push("a", one)
    second.restore(first.snapshot())
    second.push("a", two)
    assert second.findings() == whole.findings()


@pytest.mark.parametrize("seed", range(20))
def test_disorder_is_counted_row_by_row(seed: int) -> None:
    times = np.random.default_rng(seed).integers(0, 50, 60)
    watch = Disorder()
    for part in np.array_split(times, 7):
        watch.arrived(part, None)
    behind = [max(times[: i + 1]) - t for i, t in enumerate(times)]
    assert watch.found() == {"rows": 60, "behind": sum(b > 0 for b in behind), "farthest": max(behind)}


class Backwards:
    """The reverse of the alphabet."""

    name = "backwards"

    def __init__(self) -> None:
        self.asked: list[Mapping[str, int]] = []

    def order(self, waiting: Mapping[str, int]) -> Sequence[str]:
        self.asked.append(dict(waiting))
        return sorted(waiting, reverse=True)


@pytest.mark.parametrize("scheduler", [Fewest(), DrawnSchedule(3), Backwards()], ids=lambda s: s.name)
def test_a_scheduler_changes_no_answer(scheduler: Scheduler) -> None:
    plain, chosen = engine(), engine(scheduler=scheduler)
    expected, got = Counter(), Counter()
    for made, counted in ((plain, expected), (chosen, got)):
        for batch in range(4):
            tables = {"a": rows(batch, 300), "b": rows(batch + 9, 120)}
            for row in made.take_batch(tables, newest={}).to_pylist():
                counted[tuple(row.values())] += 1
    assert got == expected
    assert sum(got.values()) > 100
    assert chosen.plan().schedule["inputs"] == scheduler.name
    if isinstance(scheduler, Backwards):
        assert scheduler.asked == [{"a": 300, "b": 120}] * 4


def test_chaos_draws_its_schedule() -> None:
    assert engine(policy="chaos").plan().schedule["inputs"] == "chaos"
    assert {tuple(DrawnSchedule(seed).order({"a": 1, "b": 2, "c": 3})) for seed in range(40)} > {("a", "b", "c")}


class Halving(Written):
    """Splits every batch by row, has no classes, and rests all the same."""

    rest = 3

    def route(self, batch: Batch) -> list[Ruster]:
        rows = np.arange(len(batch))
        return [Ruster(half, self.plan.route) for half in (rows[::2], rows[1::2])]


def test_no_row_is_lost_when_a_policy_that_splits_batches_rests() -> None:
    source = tw.Source(pa.schema([("ts", pa.int64()), ("k", pa.int64())]), time="ts", unit="ms")
    engine = tw.Engine(
        "SELECT s.k FROM s [NOW] WHERE small(s.k) AND even(s.k)", {"s": source}, policy=Halving,
        functions={"small": lambda k: k < 900, "even": lambda k: k % 2 == 0},
    )  # fmt: skip
    for batch, count in enumerate((10, 20, 5, 40, 1, 30, 7)):
        found = engine.push("s", pa.table({"ts": [batch] * count, "k": list(range(count))}))
        assert found["k"].to_pylist() == list(range(0, count, 2))
