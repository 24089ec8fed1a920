"""What a worker has imported is left out of the collection after each task, once."""

from __future__ import annotations

import gc

import thalweg as tw
from thalweg.spark import settle


def test_once_in_each_process(monkeypatch):
    calls: list[str] = []
    monkeypatch.setattr(gc, "freeze", lambda: calls.append("freeze"))
    monkeypatch.setattr(settle.os, "getpid", lambda: -1)  # a process that has not been settled
    settle.settle()
    settle.settle()
    assert calls == ["freeze"]
    monkeypatch.setattr(settle.os, "getpid", lambda: -2)  # as after a fork
    settle.settle()
    assert calls == ["freeze", "freeze"]


def test_workers_are_settled(spark):
    def settled(id):
        import gc

        return gc.get_freeze_count() > 10_000

    df = spark.range(0, 100, 1, 2)
    tw.where(df, tw.pred(settled), name="settling").count()
    assert tw.where(df, tw.pred(settled), name="settled").count() == 100
