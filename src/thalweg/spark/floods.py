"""Floods: batches of which most rows were left out, because they were late, had no usable time or lay too far ahead.

A wrong unit, a producer's broken clock or a replayed topic looks like this, and without a word it would look like a
query without results. One event when it begins, one when it ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from thalweg.contract.report import InputReport, TaskReport
from thalweg.plan import Event, Reason

MOST = 0.5
"""Share of an input's rows in a batch: by then more are lost than used."""
REASONS = {"late": "late", "timeless": "without a usable time", "ahead": "too far ahead of the clock"}
BEGAN, ENDED = "most rows left out", "rows are used again"


class Floods:
    """Watches the reports of one query, batch by batch."""

    def __init__(self) -> None:
        self.now: dict[tuple[str, str], str] = {}
        """What is going on, as a sentence, by stage and input."""

    def hear(self, added: Sequence[TaskReport]) -> Iterator[Event]:
        """Events for what the tasks of one stage of one batch added."""
        aliases = dict.fromkeys(i.alias for report in added for i in report.inputs)
        for alias in aliases:
            own = [i for report in added for i in report.inputs if i.alias == alias]
            # A cell counts the rows it used, a packing task all that came.
            rows = sum(i.rows_in + (i.late + i.timeless if added[0].stage == "cell" else 0) for i in own)
            if rows:
                yield from self._judge((added[0].stage, alias), own, rows)

    def _judge(self, key: tuple[str, str], own: Sequence[InputReport], rows: int) -> Iterator[Event]:
        counts = {name: sum(getattr(i, name) for i in own) for name in REASONS}
        lost, before = sum(counts.values()), self.now.get(key)
        if lost > MOST * rows:
            worst = max(counts, key=lambda name: counts[name])
            why = Reason.of(
                "{lost:,} of {rows:,} rows of '{input}' were left out, most of them {reason}",
                lost=lost, rows=rows, input=key[1], reason=REASONS[worst],
            )  # fmt: skip
            self.now[key] = str(why)
            if before is None:
                yield Event("sources", BEGAN, 0, rows, why)
        elif before is not None:
            del self.now[key]
            why = Reason.of(
                "{kept:,} of {rows:,} rows of '{input}' came in time", kept=rows - lost, rows=rows, input=key[1]
            )
            yield Event("sources", ENDED, 0, rows, why)
