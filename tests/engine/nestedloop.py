"""The definition of a windowed join, run as it is written: every combination of rows, every predicate, every window."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Entry:
    """One input: the source it reads, its window (kind and number), and what its time column is called (None: a
    table)."""

    alias: str
    source: str
    window: tuple[Any, ...] = ("unbounded",)
    time: str | None = "ts"
    filters: tuple[Callable[[Row], Any], ...] = field(default=())


def in_window(entry: Entry, rows: Sequence[Row], position: int, now: Any) -> bool:
    """Whether the row at this position of the input's arrival order is in its window at a moment."""
    if entry.time is None:
        return True
    time = rows[position][entry.time]
    kind, *numbers = entry.window
    if time is None or time > now:
        return False
    if kind == "range":
        return bool(time >= now - numbers[0])
    if kind == "now":
        return bool(time == now)
    if kind == "unbounded":
        return True
    by = numbers[1] if kind == "partition" else ()
    mine = [rows[position][b] for b in by]
    later = sum(
        1
        for other, row in enumerate(rows)
        if row[entry.time] is not None
        and row[entry.time] <= now
        and (row[entry.time], other) > (time, position)
        and [row[b] for b in by] == mine
    )
    return later < numbers[0]


def answer(
    entries: Sequence[Entry], data: Mapping[str, Sequence[Row]],
    predicates: Sequence[tuple[Sequence[str], Callable[..., Any]]], output: Sequence[tuple[str, str]],
) -> Counter[tuple[Any, ...]]:  # fmt: skip
    """The multiset of results; predicates get the rows of the aliases they name, and hold only if they say True."""
    found: Counter[tuple[Any, ...]] = Counter()

    def extend(k: int, chosen: dict[str, int]) -> None:
        if k == len(entries):
            times = [data[e.source][chosen[e.alias]][e.time] for e in entries if e.time is not None]
            now = max(times) if times else None
            if all(in_window(e, data[e.source], chosen[e.alias], now) for e in entries):
                found[tuple(data[sources[a]][chosen[a]][c] for a, c in output)] += 1
            return
        entry = entries[k]
        for position, row in enumerate(data[entry.source]):
            if entry.time is not None and row[entry.time] is None:
                continue
            if any(f(row) is not True for f in entry.filters):
                continue
            chosen[entry.alias] = position
            due = [p for p in predicates if entry.alias in p[0] and all(a in chosen for a in p[0])]
            if all(p(*(data[sources[a]][chosen[a]] for a in names)) is True for names, p in due):
                extend(k + 1, chosen)
            del chosen[entry.alias]

    sources = {e.alias: e.source for e in entries}
    extend(0, {})
    return found
