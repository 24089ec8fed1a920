"""Chooses shares: of all ways to cut the key space into a given number of cells, the one that copies the fewest rows.

The hypercube (shares) method: input i, arriving at rate r_i, is copied to cells / Π(shares of its classes) cells, so Σ
r_i · copies_i rows travel. We examine every factorisation, which is exact, and cheap for realistic numbers of cells and
classes. A window that depends on the order of a whole input forces one cell, unless a common key class partitions every
such window.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from thalweg.language.query import Query
from thalweg.plan.shares import Shares


def choose(classes: Sequence[Sequence[int]], rates: Sequence[float], keys: int, cells: int) -> Shares:
    """The best shares for inputs with these classes and rates.

    >>> choose([[0], [0], [0]], [1, 1, 1], keys=1, cells=4)  # one common key: nothing is copied
    Shares(sizes=(4,))
    >>> choose([[0, 1], [0], [1]], [100, 1, 1], keys=2, cells=4).replication([0, 1])  # star: fast input not copied
    1
    """
    if not keys:
        return Shares(())

    def rows(sizes: tuple[int, ...]) -> tuple[float, int]:
        shares = Shares(sizes)
        copied = sum(rate * shares.replication(own) for own, rate in zip(classes, rates, strict=True))
        return copied, sum(s > 1 for s in sizes)

    return Shares(min(_factorisations(cells, keys), key=rows))


def _factorisations(cells: int, places: int) -> Iterator[tuple[int, ...]]:
    if places == 1:
        yield (cells,)
        return
    for first in range(1, cells + 1):
        if cells % first == 0:
            for rest in _factorisations(cells // first, places - 1):
                yield (first, *rest)


def classes(query: Query) -> list[list[int]]:
    """The key classes of each input."""
    number = {i.alias: n for n, i in enumerate(query.inputs)}
    found: list[list[int]] = [[] for _ in query.inputs]
    for c, key in enumerate(query.block.keys):
        for column in key.columns:
            if c not in found[number[column.input]]:
                found[number[column.input]].append(c)
    return found


def copied(query: Query, shares: Shares, rates: Sequence[float]) -> float:
    """Rows that travel under these shares at these arrival rates."""
    return sum(rate * shares.replication(own) for own, rate in zip(classes(query), rates, strict=True))


def for_query(query: Query, cells: int, rates: Sequence[float] | None = None) -> tuple[Shares, str]:
    """Shares for a query, and the reason."""
    if not query.block.keys:
        return Shares(()), "no equality between inputs: one cell"
    ordered = [i for i in query.inputs if i.is_stream and i.window.ordered]
    if ordered:
        common = _partitioning_class(query)
        if common is None:
            return Shares((1,) * len(query.block.keys)), "a ROWS window needs one order of its whole input: one cell"
        sizes = tuple(cells if c == common else 1 for c in range(len(query.block.keys)))
        return Shares(sizes), f"row windows are partitioned by {query.block.keys[common].columns[0]}: cut by it"
    streams = [n for n, i in enumerate(query.inputs) if i.is_stream] or list(range(len(query.inputs)))
    given = list(rates) if rates is not None else [1.0] * len(query.inputs)
    weights = [given[n] if n in streams else 0.0 for n in range(len(query.inputs))]
    shares = choose(classes(query), weights, len(query.block.keys), cells)
    return shares, "fewest rows copied of all ways to cut the keys" if shares.cells > 1 else "one cell"


def _partitioning_class(query: Query) -> int | None:
    """A key class whose columns partition every row window."""
    for c, key in enumerate(query.block.keys):
        columns = {(k.input, k.name) for k in key.columns}
        if all(
            i.window.kind == "partition" and any((i.alias, by) in columns for by in i.window.by)
            for i in query.inputs
            if i.is_stream and i.window.ordered
        ):
            return c
    return None
