"""What listens must not disturb: a board that fails, or a user's listener that raises, costs reports and no rows."""

from __future__ import annotations

from pyspark.sql.streaming.listener import StreamingQueryListener

import thalweg as tw
from thalweg.spark.board import board


class Broken(StreamingQueryListener):
    """A user's own."""

    def onQueryStarted(self, event):
        raise RuntimeError("broken")

    onQueryProgress = onQueryIdle = onQueryTerminated = onQueryStarted


def test_broken_listeners_cost_no_row(spark, tmp_path, monkeypatch):
    def fail(metric):
        raise RuntimeError(f"no place on the board for {metric}")

    broken = Broken()
    spark.streams.addListener(broken)
    monkeypatch.setattr(board, "reporting", fail)
    try:
        spark.range(40).write.parquet(str(tmp_path / "in"))
        df = tw.where(
            spark.readStream.schema("id long").parquet(str(tmp_path / "in")), tw.pred(odd, "id"), name="unheard"
        )
        writer = df.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "check"))
        assert writer.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination(120)
        found = sorted(r.id for r in spark.read.parquet(str(tmp_path / "out")).collect())
        assert found == list(range(1, 40, 2))
    finally:
        spark.streams.removeListener(broken)
    assert "unheard" in str(tw.query("unheard").explain())


def odd(value: int) -> bool:
    return value % 2 == 1
