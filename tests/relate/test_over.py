"""Aggregates over what precedes a row, against plain loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.relate.course import Event, plain, random_cuts, random_events, random_instants, run

from thalweg.language.algebra import Aggregate, Node, Over
from thalweg.relate import operator

SCHEMA = pa.schema([("k", pa.string()), ("x", pa.int64())])
OUT = pa.schema([*SCHEMA, ("n", pa.int64()), ("s", pa.int64())])
AGGREGATES = {"n": Aggregate("count"), "s": Aggregate("sum", ("x",))}


def preceded(events: list[Event], partition: bool, frame: str, preceding: int | None) -> list[Event]:
    singles = [(row, time) for row, sign, time in events for _ in range(max(sign, 0))]
    out: list[Event] = []
    for place, (row, time) in enumerate(singles):
        mine = [(r, t, p) for p, (r, t) in enumerate(singles) if not partition or plain(r[0]) == plain(row[0])]
        if frame == "range":
            mine = [e for e in mine if e[1] <= time and (preceding is None or e[1] >= time - preceding)]
        else:
            mine = [e for e in mine if e[2] <= place]
            mine = mine if preceding is None else mine[-preceding - 1 :]
        values = [r[1] for r, _, _ in mine if r[1] is not None]
        out.append(((*row, len(mine), sum(values) if values else None), 1, time))
    return out


def singles(events: list[Event]) -> list[Event]:
    return sorted([(r, 1, t) for r, n, t in events for _ in range(n)], key=lambda e: (e[2], str(e[0])))


@pytest.mark.parametrize("preceding", [None, 0, 2, 9])
@pytest.mark.parametrize("frame", ["range", "rows"])
@pytest.mark.parametrize("seed", range(8))
def test_frames(seed: int, frame: Any, preceding: int | None) -> None:
    chance = np.random.default_rng([seed, len(frame), -1 if preceding is None else preceding][:2])
    partition = ("k",) if seed % 2 else ()
    node = Over(OUT, Node(SCHEMA), partition, frame, preceding, AGGREGATES)
    events = random_events(chance, SCHEMA, random_instants(chance, 20))
    wanted = preceded(events, bool(partition), frame, preceding)
    out, op = run(lambda: operator(node), [events], [SCHEMA], chance, random_cuts(chance, [events], beyond=30))
    assert singles(out) == singles(wanted)
    whole, _ = run(lambda: operator(node), [events], [SCHEMA], chance, [2**62], snapshots=0)
    assert whole == out
    if frame == "range" and preceding is not None:
        assert op.size() == 0, "all have left their frames"


def test_a_count_without_columns_of_its_own() -> None:
    out = pa.schema([*SCHEMA, ("n", pa.int64())])
    node = Over(out, Node(SCHEMA), (), "range", 5, {"n": Aggregate("count")})
    events: list[Event] = [(("a", 1), 1, 1), (("b", 1), 1, 4), (("b", 1), 2, 8)]
    found, _ = run(lambda: operator(node), [events], [SCHEMA], np.random.default_rng(0), [5, 20])
    assert found == [(("a", 1, 1), 1, 1), (("b", 1, 2), 1, 4), (("b", 1, 3), 2, 8)]
