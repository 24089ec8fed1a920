"""What a dry run found, as a table and one sentence; prints as text, shows as HTML in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape

from thalweg.engine.rehearse import Rehearsal, Way
from thalweg.engine.rehearse_join import JoinRehearsal
from thalweg.watch.explain import UNKNOWN, Block, Lines, Table, microseconds, share

WORTH = 0.03
"""Savings below the project's own goal for overhead are called none."""


@dataclass(frozen=True, repr=False)
class DryRun:
    """What `tw.dry_run` returns. `found` has every number."""

    found: Rehearsal

    @property
    def saved_against_spark(self) -> float:
        """Share of the predicates' time that is saved against calling each of them on every row."""
        return _saved(self.found.learned.seconds, self.found.spark.seconds)

    @property
    def saved_against_written(self) -> float:
        """Share of the predicates' time that the order saves against the written one."""
        return _saved(self.found.learned.seconds, self.found.written.seconds)

    @property
    def sentence(self) -> str:
        """The verdict."""
        found = self.found
        per_row = found.spark.seconds / found.rows
        gained = (found.spark.seconds - found.learned.seconds) / found.rows
        if gained <= found.overhead:
            return (
                f"Leave this query as it is: its predicates take {microseconds(per_row)} a row on Spark, and Thalweg's own "
                f"work ({microseconds(found.overhead)} a row) would cost more than the {microseconds(gained)} that it saves."
            )
        early = _saved(found.written.seconds, found.spark.seconds)
        words = (
            f"tw.where would save {self.saved_against_spark:.0%} of the time that Spark spends in these predicates: "
            f"{early:.0%} because a row stops at the first predicate that drops it"
        )
        if self.saved_against_written < WORTH:
            return f"{words}; the written order is as good as any that was found."
        return f"{words}, and {self.saved_against_written:.0%} of the rest because it finds a better order."

    def __repr__(self) -> str:
        shown = [self._heading, *("\n".join(b.text()) for b in self._blocks()), self.sentence]
        return "\n\n".join(shown)

    def _repr_html_(self) -> str:
        return _html(self._heading, self._blocks(), self.sentence)

    @property
    def _heading(self) -> str:
        return f"dry run on {self.found.rows:,} rows, {self.found.kept:,} of which pass; nothing was changed"

    def _blocks(self) -> Iterator[Block]:
        found = self.found
        ways = (
            ("Spark: every predicate, every row", found.spark),
            ("as written, stopping early", found.written),
            (f"{found.policy}, while it learns", found.learning),
            (f"{found.policy}, from then on", found.learned),
        )
        yield Table(
            ("way", "calls", "calls per row", "seconds", "against Spark", "against written"),
            [self._line(name, way) for name, way in ways],
        )
        each = [
            (p.name, share(p.rate), microseconds(p.cost) if p.asked else UNKNOWN, f"{p.raised:,}" if p.raised else "")
            for p in found.predicates
        ]
        yield Table(("predicate", "pass rate", "cost per call", "raised"), each)
        kinds = f"   (the largest of {found.classes} kinds of rows)" if found.classes > 1 else ""
        lines = [("order", " → ".join(found.order) + kinds)]
        raised = [p.name for p in found.predicates if p.raised]
        if raised:
            lines.append(
                ("errors", f"{', '.join(raised)} raised on rows that other predicates drop: Spark would fail there, "
                 "Thalweg does not")
            )  # fmt: skip
        yield Lines(lines)

    def _line(self, name: str, way: Way) -> tuple[str, ...]:
        found = self.found
        against = [_change(way.seconds, other.seconds) for other in (found.spark, found.written)]
        if way is found.spark:
            against = ["", ""]
        elif way is found.written:
            against[1] = ""
        return (name, f"{way.total:,}", f"{way.total / found.rows:.2f}", f"{way.seconds:.3f}", *against)


@dataclass(frozen=True, repr=False)
class JoinDryRun:
    """What `tw.sql(..., dry=True)` returns. `found` has every number."""

    found: JoinRehearsal
    span: float
    """Seconds that the sample covers."""
    window: float
    """Seconds of the longest window."""

    @property
    def saved_against_written(self) -> float:
        """Share of the probe work that the policy's orders save against the written ones."""
        return _saved(self.found.learned.work, self.found.written.work)

    @property
    def sentence(self) -> str:
        """The verdict."""
        found, words = self.found, ""
        if found.spark:
            more = "more than " if any(s.more for s in found.spark) else ""
            words = (
                f"Spark's binary joins would keep {more}{found.spark_stored:,} rows at their peaks, Thalweg keeps "
                f"{found.stored:,}"
            )
        else:
            words = f"Thalweg keeps {found.stored:,} rows" + (f"; {found.refused}" if found.refused else "")
        if self.saved_against_written < WORTH:
            return f"{words}; the written join orders are as good as any that was found."
        return f"{words}; orders that follow the data save {self.saved_against_written:.0%} of the probe work of the written ones."

    def __repr__(self) -> str:
        return "\n\n".join([self._heading, *("\n".join(b.text()) for b in self._blocks()), self.sentence])

    def _repr_html_(self) -> str:
        return _html(self._heading, self._blocks(), self.sentence)

    @property
    def _heading(self) -> str:
        total = sum(self.found.rows.values())
        return f"dry run on {total:,} rows of {self.span:,.0f} seconds, {self.found.results:,} results; nothing was started"

    def _blocks(self) -> Iterator[Block]:
        found = self.found
        ways = [("as written", found.written), (found.policy, found.learned)]
        yield Table(
            ("way", "probe work", "seconds", "against written"),
            [
                (name, f"{w.work:,.0f}", f"{w.seconds:.3f}", _change(w.work, found.written.work) if w is found.learned else "")
                for name, w in ways
            ],
        )  # fmt: skip
        if found.spark:
            kept = [(f"{' ⋈ '.join(s.left)} ⋈ {s.right}", f"{'> ' if s.more else ''}{s.rows:,}") for s in found.spark]
            rows = [*kept, ("Spark, together", f"{found.spark_stored:,}"), ("Thalweg", f"{found.stored:,}")]
            yield Table(("way", "rows stored"), rows)
        orders = [(f"order of {alias}", " → ".join(order)) for alias, order in found.learned.orders.items() if order]
        short = [
            ("note", f"the sample is shorter than the longest window ({self.window:,.0f} s): state goes on growing")
        ]
        yield Lines([*orders, *(short if self.span < self.window else [])])


def _html(heading: str, blocks: Iterable[Block], sentence: str) -> str:
    parts = [b.html() for b in blocks] + [f"<p><b>{escape(sentence)}</b></p>"]
    body = "".join(f"<div style='margin:.7em 0'>{part}</div>" for part in parts)
    return f"<div><h4 style='margin:0'>{escape(heading)}</h4>{body}</div>"


def _saved(ours: float, theirs: float) -> float:
    return 1 - ours / theirs if theirs else 0.0


def _change(ours: float, theirs: float) -> str:
    """
    >>> _change(9.0, 10.0), _change(9.99, 10.0), _change(11.0, 10.0)
    ('-10%', '0%', '+10%')
    """
    shown = f"{-_saved(ours, theirs):+.0%}"
    return "0%" if shown in ("-0%", "+0%") else shown
