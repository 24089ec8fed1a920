"""Checks on candidates: predicates between inputs, and hashed keys that are equal though their values are not.

Invariant: a residual that raises is deferred until all others have judged, and raises only for a combination that
passes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.errors import PredicateError
from thalweg.execute.faults import Faults
from thalweg.execute.shape import Shape
from thalweg.language.query import Column

Ints = NDArray[np.int64]
Values = Callable[[Ints, Column], pa.Array]
"""The values of a column for candidates."""


class Residuals:
    """The checks of one query. `values` reads the columns of candidates."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.faults: Faults | None = None
        """Who takes combinations on which a predicate raised; None: nobody, they raise."""
        self._everyone = frozenset(range(len(shape.aliases)))

    def settle(
        self, residuals: Sequence[int], bound: frozenset[int], chunk: Ints, values: Values, deferred: set[int]
    ) -> NDArray[np.bool_]:
        """The candidates that pass the residuals that are due; those that raise are added to `deferred`."""
        keep = self._same(bound, chunk, values)
        for r in residuals:
            alive = np.flatnonzero(keep)
            if not len(alive):
                break
            try:
                holds = self._holds(r, _picked(chunk, alive), values)
            except PredicateError:
                raise
            except Exception:
                deferred.add(r)
                continue
            keep[alive] = holds
        return keep

    def finish(self, chunk: Ints, values: Values, deferred: set[int]) -> Ints:
        """The results among combinations of all inputs."""
        if self.shape.hashed:
            chunk = _kept(chunk, self._same(self._everyone, chunk, values))
        for r in sorted(deferred):
            if not len(chunk):
                break
            try:
                holds = self._holds(r, chunk, values)
            except PredicateError:
                raise
            except Exception as error:
                if self.faults is None:
                    raise PredicateError(
                        f"predicate '{self.shape.residuals[r].text}' raised {type(error).__name__}: {error}",
                        hint="the pair passes all other predicates; guard this one, let it return None, or set such pairs "
                        'aside with on_error="skip" or "quarantine"',
                    ) from error
                holds = self._halved(r, chunk, values, error)
            chunk = _kept(chunk, holds)
        return chunk

    def _halved(self, r: int, chunk: Ints, values: Values, error: Exception) -> NDArray[np.bool_]:
        """Verdicts on combinations of which some raise: halve them until each that does is alone, and set it aside."""
        assert self.faults is not None
        if len(chunk) == 1:
            residual = self.shape.residuals[r]
            shown = {str(c): values(chunk, c)[0].as_py() for c in residual.columns} if self.faults.keep else {}
            self.faults.add(", ".join(residual.inputs), residual.text, error, shown)
            return np.zeros(1, np.bool_)
        parts = []
        for half in (chunk[: len(chunk) // 2], chunk[len(chunk) // 2 :]):
            try:
                parts.append(self._holds(r, half, values))
            except PredicateError:
                raise
            except Exception as again:
                parts.append(self._halved(r, half, values, again))
        return np.concatenate(parts)

    def _holds(self, r: int, chunk: Ints, values: Values) -> NDArray[np.bool_]:
        residual = self.shape.residuals[r]
        assert residual.evaluate is not None
        held = residual.evaluate({c: values(chunk, c) for c in residual.columns})
        if isinstance(held, pa.ChunkedArray):
            held = held.combine_chunks()
        if not isinstance(held, pa.Array) or len(held) != len(chunk):
            raise PredicateError(
                f"predicate '{residual.text}' was given {len(chunk)} pairs and did not return one verdict for each",
                hint="a predicate between inputs returns one boolean for each pair it gets",
            )
        return np.asarray(held.cast(pa.bool_()).fill_null(False).to_numpy(zero_copy_only=False), np.bool_)

    def _same(self, bound: frozenset[int], chunk: Ints, values: Values) -> NDArray[np.bool_]:
        """Candidates whose hashed keys truly have equal values."""
        keep = np.ones(len(chunk), np.bool_)
        for c in self.shape.hashed:
            coder = self.shape.coders[c]
            holders = [i for i in sorted(bound) if c in self.shape.key_columns[i]]
            alive = np.flatnonzero(keep)
            if len(holders) < 2 or not len(alive):
                continue
            some = _picked(chunk, alive)
            names = [Column(self.shape.aliases[i], self.shape.key_columns[i][c][0]) for i in holders]
            reference = values(some, names[0])
            for name in names[1:]:
                keep[alive] &= coder.same(reference, values(some, name))
        return keep


def _picked(chunk: Ints, rows: Ints) -> Ints:
    return chunk if len(rows) == len(chunk) else chunk.take(rows, axis=0)


def _kept(chunk: Ints, keep: NDArray[np.bool_]) -> Ints:
    return chunk if keep.all() else chunk.compress(keep, axis=0)
