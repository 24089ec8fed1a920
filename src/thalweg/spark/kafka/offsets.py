"""Which records of which partitions: positions in a log, and how a micro-batch's share of them is cut.

A position is the offset of the next record to read. Positions travel as Spark's own Kafka connector writes them,
`{"topic": {"0": 17}}`. A batch never takes more than it may, and its share of each partition is in proportion to what
waits there, so that partitions, and topics that are joined, catch up together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

Place = tuple[str, int]
"""A topic and the number of a partition."""
Offsets = dict[Place, int]


@dataclass(frozen=True)
class Range:
    """Records of one partition: from `start` up to, not including, `end`."""

    topic: str
    partition: int
    start: int
    end: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}] offsets {self.start} to {self.end}"


def to_json(offsets: Offsets) -> dict[str, dict[str, int]]:
    """
    >>> to_json({("b", 0): 3, ("a", 1): 2, ("a", 0): 1})
    {'a': {'0': 1, '1': 2}, 'b': {'0': 3}}
    """
    nested: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        nested.setdefault(topic, {})[str(partition)] = offset
    return nested


def from_json(nested: Mapping[str, Mapping[str, int]]) -> Offsets:
    """
    >>> from_json({"a": {"0": 1, "1": 2}})
    {('a', 0): 1, ('a', 1): 2}
    """
    return {(topic, int(p)): offset for topic, parts in nested.items() for p, offset in parts.items()}


def admit(start: Offsets, latest: Offsets, limit: int | None) -> Offsets:
    """How far a batch may go: to the latest records, or `limit` records in all.

    The largest remainders get what rounding leaves, so a batch is full as long as enough waits.

    >>> admit({("a", 0): 0, ("a", 1): 0}, {("a", 0): 300, ("a", 1): 100}, 100)
    {('a', 0): 75, ('a', 1): 25}
    """
    waiting = {place: max(0, latest[place] - start.get(place, 0)) for place in latest}
    total = sum(waiting.values())
    if limit is None or total <= limit:
        return dict(latest)
    shares = {place: divmod(limit * n, total) for place, n in waiting.items()}
    left = limit - sum(whole for whole, _ in shares.values())
    favoured = set(sorted(shares, key=lambda place: (-shares[place][1], place))[:left])
    return {
        place: start.get(place, 0) + shares[place][0] + (place in favoured) if waiting[place] else latest[place]
        for place in latest
    }


def ranges(start: Offsets, end: Offsets, pieces: int | None = None) -> list[Range]:
    """The ranges between two positions, cut into at least `pieces` of about equal size.

    >>> [str(r) for r in ranges({("a", 0): 0, ("a", 1): 5}, {("a", 0): 9, ("a", 1): 5}, 3)]
    ['a[0] offsets 0 to 3', 'a[0] offsets 3 to 6', 'a[0] offsets 6 to 9']
    """
    whole = [Range(t, p, start[t, p], last) for (t, p), last in sorted(end.items()) if last > start[t, p]]
    total = sum(r.end - r.start for r in whole)
    if not pieces or pieces <= len(whole):
        return whole
    cut = []
    for r in whole:
        size = r.end - r.start
        n = min(size, -(-pieces * size // total))
        edges = [r.start + size * k // n for k in range(n + 1)]
        cut += [Range(r.topic, r.partition, a, b) for a, b in pairwise(edges)]
    return cut
