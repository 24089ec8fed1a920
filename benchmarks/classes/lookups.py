"""Whether classes pay in time: processor time of a row where six tables are looked up, by policy and batch size.

The data are those of content-based routing's figures 3 and 4 at the largest skew (-95 %): each of six classes of rows finds
nothing in a table of its own. SBR draws a route for every row, Knows is told the best route of each class, Learns is
`cbr`, QM is `mesh`, and SP takes the written order, which is as good as any single one here. Rounds take the policies in turn;
a ratio is the median of the ratios within a round.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

import numpy as np

from thalweg.lab import lookups, star

ROWS = (1_000, 4_000, 16_000, 64_000)
SBR, KNOWS, LEARNS, QM, SP = "SBR", "Knows", "Learns", "QM", "SP"
POLICIES = (SBR, KNOWS, LEARNS, QM, SP)


@dataclass(frozen=True)
class Time:
    """One policy at one batch size."""

    rows: int
    policy: str
    microseconds: float
    """Of a row, the median of the rounds."""
    ratio: float
    """Of SBR's time to this one."""
    work: float
    """Buckets and candidates of a row."""


def times(rounds: int, tuples: int = 1_000_000, seed: int = 1) -> Iterator[Time]:
    """Every policy at every batch size; all must find the same rows."""
    random = np.random.default_rng(seed)
    drawn = star.draw(star.skewed(6, 0.05), tuples, random)
    stream, tables = lookups.tables(drawn, random)
    choosers: dict[str, lookups.Chooser] = {
        SBR: "sbr", KNOWS: lookups.knowing(drawn), LEARNS: "cbr", QM: "mesh", SP: "written",
    }  # fmt: skip
    expected = int(drawn.bits.all(axis=1).sum())
    for rows in ROWS:
        took: dict[str, list[float]] = {name: [] for name in POLICIES}
        work: dict[str, float] = {}
        for number in range(rounds):
            for name, policy in choosers.items():
                run = lookups.looked_up if number else lookups.warmed
                work[name], seconds, found = run(policy, stream, tables, seed, rows)
                assert found == expected, f"{name} found {found} rows, not {expected}"
                took[name].append(1e6 * seconds / tuples)
        for name in POLICIES:
            ratios = [sbr / own for sbr, own in zip(took[SBR], took[name], strict=True)]
            yield Time(rows, name, median(took[name]), median(ratios), work[name] / tuples)


def markdown(found: list[Time]) -> list[str]:
    """A table, and whether the targets are met."""
    lines = [
        "", "## Look-ups: do classes pay in time?", "",
        "Six tables of 10,000 rows, skew -95 %, a million rows. Microseconds of processor time a row, the whole engine and",
        "all learning included; in brackets, how many times as long SBR takes. *Work*: buckets and candidates a row.",
        "", "| rows a batch | " + " | ".join(POLICIES) + " |", "|---:" * (len(POLICIES) + 1) + "|",
    ]  # fmt: skip
    at = {(t.rows, t.policy): t for t in found}
    sizes = list(dict.fromkeys(t.rows for t in found))
    for rows in sizes:
        cells = [f"{at[rows, p].microseconds:.2f} ({at[rows, p].ratio:.1f} x)" for p in POLICIES]
        lines.append(f"| {rows:,} | {' | '.join(cells)} |")
    lines.append(f"| work at {sizes[0]:,} | " + " | ".join(f"{at[sizes[0], p].work:.2f}" for p in POLICIES) + " |")
    lines.append("")
    for says, met in targets(at):
        lines.append(f"- {'met' if met else 'MISSED'}: {says}")
    return lines


def targets(at: dict[tuple[int, str], Time]) -> list[tuple[str, bool]]:
    """What must hold."""
    small = [at[1_000, p].microseconds for p in (KNOWS, LEARNS, QM)]
    return [
        ("at 1,000 rows Learns takes no longer than SBR", at[1_000, LEARNS].ratio >= 1.0),
        ("at 1,000 rows Knows is faster than Learns, and Learns than QM", small == sorted(small)),
        ("at 16,000 rows Learns is at least twice as fast as SBR", at[16_000, LEARNS].ratio >= 2.0),
    ]
