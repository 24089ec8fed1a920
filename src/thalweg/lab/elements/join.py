"""What is joined, as records, and the elements that windows make of rows (thesis 2.1, 5.2).

A record is a tuple: a value for each key class, then a row's number for each stream; None where it has none. Streams join
where their values of a class are equal, and NULL equals nothing. An element is a record of one stream that enters its
window (+) or leaves it (-); rows of one time leave before others enter.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from thalweg.plan.graph import JoinGraph

Record = tuple[Any, ...]
Element = tuple[int, Record, bool]
"""A stream, a record of it, and whether it enters."""
Arrival = tuple[float, int, Sequence[Any]]
"""A time, a stream, and the values of its classes."""


@dataclass(frozen=True)
class Join:
    """Streams and the key classes that each has.

    >>> q3 = Join(("r", "s", "t"), ((0,), (0, 1), (1,)))
    >>> q3.record(1, (7, 8), 3)
    (7, 8, None, 3, None)
    >>> sorted(q3.shared({0, 1}, {2}))
    [1]
    """

    names: tuple[str, ...]
    classes: tuple[tuple[int, ...], ...]
    scanned: tuple[tuple[int, int], ...] = ()
    """Streams without an index on a class: a probe that knows only that class looks through the window. Partial results have
    indexes all the same."""

    @property
    def count(self) -> int:
        """Key classes."""
        return 1 + max(c for own in self.classes for c in own)

    @property
    def width(self) -> int:
        return self.count + len(self.names)

    def record(self, stream: int, values: Sequence[Any], number: int) -> Record:
        """A row of one stream: its values in the order of its classes, and a number that no other row has."""
        cells: list[Any] = [None] * self.width
        for c, value in zip(self.classes[stream], values, strict=True):
            cells[c] = value
        cells[self.count + stream] = number
        return tuple(cells)

    def known(self, streams: Iterable[int]) -> frozenset[int]:
        """The classes of some streams."""
        return frozenset(c for i in streams for c in self.classes[i])

    def shared(self, one: Iterable[int], other: Iterable[int]) -> frozenset[int]:
        return self.known(one) & self.known(other)

    def connected(self, streams: frozenset[int]) -> bool:
        """Whether no join of these is a product."""
        reached = {min(streams)}
        while more := {i for i in streams - reached if self.shared(reached, [i])}:
            reached |= more
        return reached == streams

    @property
    def graph(self) -> JoinGraph:
        everyone = frozenset(range(len(self.names)))
        return JoinGraph(self.names, tuple(map(frozenset, self.classes)), (), (), everyone, everyone)


def columns(places: Sequence[int]) -> Callable[[Record], Any]:
    """Reads some places of a record; also none of them."""
    return itemgetter(*places) if places else lambda record: ()


@dataclass(frozen=True)
class Held:
    """The last `rows` rows, or those that are not older than `span`."""

    rows: int | None = None
    span: float | None = None


def elements(join: Join, arrivals: Iterable[Arrival], windows: Sequence[Held]) -> Iterator[Element]:
    """What windows make of rows (time, stream, values) that come in the order of their times."""
    held: list[deque[tuple[float, Record]]] = [deque() for _ in windows]
    for number, (time, stream, values) in enumerate(arrivals):
        for i, window in enumerate(windows):
            while window.span is not None and held[i] and held[i][0][0] + window.span < time:
                yield i, held[i].popleft()[1], False
        if windows[stream].rows is not None and len(held[stream]) == windows[stream].rows:
            yield stream, held[stream].popleft()[1], False
        record = join.record(stream, values, number)
        held[stream].append((time, record))
        yield stream, record, True
