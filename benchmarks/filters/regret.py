"""Nothing to gain: the CPU cost of watching, relative to `written`, where no other order is better.

The whole cell runs (cut, route, filter, observe). The contestants take turns on the same piece of the stream, in an order
drawn for each piece, and keep what they learned. Pieces are short, so the load of the machine affects all alike. A pair
sums enough pieces to include rare costs. `written` runs twice; its two runs differ only by noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import process_time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from benchmarks.filters.engine import WrongAnswer
from benchmarks.filters.workload import Workload
from thalweg import optimize
from thalweg.engine.filtercell import FilterCell
from thalweg.execute.filters import Filter
from thalweg.plan import Operator, Pipeline

CONTESTANTS = ("written", "written again", "auto", "agreedy")


@dataclass(frozen=True)
class Regret:
    """CPU of a contestant relative to the mean of the two `written` runs on the same batches."""

    who: str
    ratios: NDArray[np.float64]
    total: float
    """Its total CPU relative to that of `written`. Rare costs count here; a median might miss them."""
    cpu: float
    calls_per_row: float
    orders: int

    @property
    def median(self) -> float:
        return float(np.median(self.ratios))

    @property
    def quartiles(self) -> tuple[float, float]:
        low, high = np.quantile(self.ratios, [0.25, 0.75])
        return float(low), float(high)

    @property
    def error(self) -> float:
        """Standard error of the median, by resampling with a fixed seed."""
        random = np.random.default_rng(0)
        drawn = random.choice(self.ratios, (400, len(self.ratios)))
        return float(np.median(drawn, axis=1).std())


def judges(workload: Workload) -> list[Filter]:
    return [Filter(f"p{j + 1}", p.function(), (f"x{j + 1}",)) for j, p in enumerate(workload.predicates)]


def cheap_judges(columns: int) -> list[Filter]:
    """Vectorised comparisons take nanoseconds per row, so any bookkeeping shows."""
    middle = pa.scalar(54_999, pa.int32())

    def low(x: pa.Array) -> pa.Array:
        return pc.less_equal(x, middle)

    return [Filter(f"p{j + 1}", low, (f"x{j + 1}",), kind="arrow") for j in range(columns)]


def compare(
    table: pa.Table, filters: Sequence[Filter], *, piece: int, pieces: int, rounds: int = 1, seed: int = 0,
    expected: int | None = None, advance: Callable[[int], None] = lambda done: None,
) -> list[Regret]:  # fmt: skip
    """Run all contestants over all pieces of `piece` rows, `rounds` times; `pieces` pieces make a pair."""
    pipeline = Pipeline("nothing to gain", tuple(Operator(f.name) for f in filters))
    cells = {who: _cell(who, pipeline, filters, seed) for who in CONTESTANTS}
    whole = [
        b.slice(a, piece) for b in table.combine_chunks().to_batches() for a in range(0, b.num_rows, piece)
    ] * rounds
    random = np.random.default_rng(seed)
    spent: dict[str, list[float]] = {who: [] for who in CONTESTANTS}
    for number in range(len(whole) // pieces * pieces):
        for k in random.permutation(len(CONTESTANTS)):
            who = CONTESTANTS[k]
            before = process_time()
            cells[who].feed(whole[number])
            took = process_time() - before
            if number % pieces == 0:
                spent[who].append(0.0)
            spent[who][-1] += took
        advance(whole[number].num_rows)
    rows_out = {who: cell.tally.rows_out for who, cell in cells.items()}
    if len(set(rows_out.values())) > 1 or (expected is not None and rows_out["written"] != expected):
        raise WrongAnswer(f"rows out differ: {rows_out}, expected {expected}")
    plain = (np.array(spent["written"]) + np.array(spent["written again"])) / 2
    return [
        Regret(
            who, np.array(spent[who]) / plain, float(np.sum(spent[who]) / plain.sum()), float(np.sum(spent[who])),
            sum(cells[who].tally.calls) / cells[who].tally.rows_in,
            sum(e.change is not None for e in cells[who].events),
        )
        for who in CONTESTANTS
    ]  # fmt: skip


def _cell(who: str, pipeline: Pipeline, filters: Sequence[Filter], seed: int) -> FilterCell:
    policy: Any = optimize.make("written" if who.startswith("written") else who, pipeline, seed)
    return FilterCell(pipeline, filters, policy)
