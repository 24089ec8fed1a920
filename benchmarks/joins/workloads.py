"""The data and the queries: workloads made from a seed, each with its SQL for Thalweg and its best order.

Every stream has one tuple per millisecond. Every five seconds, another join becomes the selective one. J and J3 draw the
same numbers as the project's first comparison of engines, so the answers found then apply.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

PHASE = 5_000
WINDOW = 10_000
"""In milliseconds: two tuples of a result are less than this apart."""
CHAIN_WINDOW = 2_000

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Workload:
    """Streams `s1`..., tables `t1`..., and the query over them; results are counted and summed to compare answers."""

    name: str
    tuples: int
    """Per stream."""
    streams: tuple[str, ...]
    tables: tuple[str, ...]
    equalities: tuple[tuple[str, str, str, str], ...]
    """Input, column, input, column."""
    window: int
    data: Mapping[str, pa.Table]
    count: int | None = None
    """The known number of results, if there is one."""
    checksum: int | None = None

    @property
    def rows(self) -> int:
        """Number of rows that arrive, which are those of the streams."""
        return sum(self.data[s].num_rows for s in self.streams)

    @property
    def sql(self) -> str:
        times = ", ".join(f"{s}.ts AS {s}_ts" for s in self.streams)
        entries = [f"{s} [RANGE {self.window - 1} MILLISECONDS]" for s in self.streams] + list(self.tables)
        where = " AND ".join(f"{a}.{x} = {b}.{y}" for a, x, b, y in self.equalities)
        return f"SELECT {times} FROM {', '.join(entries)} WHERE {where}"

    def weights(self) -> dict[str, int]:
        """Weights of the streams' times in the checksum: 7, 5, 3, 1 for four streams."""
        odd = range(2 * len(self.streams) - 1, 0, -2)
        return dict(zip(self.streams, odd, strict=True))

    def write(self, folder: Path) -> Path:
        """The inputs as Parquet files, one per input, under a folder of the workload's name."""
        home = folder / self.name
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        for name, table in self.data.items():
            pq.write_table(table, home / f"{name}.parquet")
        return home


def _uniform(g: np.random.Generator, size: int, domain: Ints | int) -> Ints:
    return (g.random(size) * domain).astype(np.int64)


# --- J: a clique of four, every pair with an attribute of its own -----------------------------------------------------

PAIRS = tuple(combinations(range(1, 5), 2))
MATCHING = (0, 1, 2, 2, 1, 0)
"""The six pairs form three perfect matchings; the phase says which one is selective."""
DOMAINS = np.array([5_000, 50, 100])


def domain(phase: Ints, pair: int) -> Ints:
    """The number of values of a pair's attribute in a phase (0, 1 or 2)."""
    return DOMAINS[(MATCHING[pair] - phase) % 3]


def clique(tuples: int, seed: int) -> dict[str, pa.Table]:
    """A fifth of the tuples are planted: an event leaves, within seconds, a tuple with equal keys in each stream."""
    g = np.random.Generator(np.random.PCG64(seed))
    planted = tuples // 5
    base = g.random(planted) * tuples
    wide = g.random(planted) < 0.1
    phase = base.astype(np.int64) // PHASE % 3
    event = [_uniform(g, planted, domain(phase, j)) for j in range(6)]
    made = {}
    for s in range(1, 5):
        delay = g.random(planted) * np.where(wide, 15_000, 3_000)
        wished = np.concatenate([base + delay, g.random(tuples - planted) * tuples])
        order = np.argsort(wished, kind="stable")
        times = np.empty(tuples, np.int64)
        times[order] = np.arange(tuples)
        phases = times // PHASE % 3
        columns = {"ts": np.arange(tuples, dtype=np.int32)}
        for j, pair in enumerate(PAIRS):
            if s in pair:
                values = _uniform(g, tuples, domain(phases, j))
                values[:planted] = event[j]
                columns[f"a{pair[0]}{pair[1]}"] = values[order].astype(np.int32)
        made[f"s{s}"] = pa.table(columns)
    return made


J_ANSWERS = {40_000: (7_806, 2_708_386_118), 200_000: (38_578, 62_754_687_830)}
J_SEEDS = {40_000: 1, 200_000: 2}


def j(tuples: int, window: int = WINDOW, seed: int | None = None) -> Workload:
    """J with the seed on which all engines are compared, or another."""
    equalities = tuple((f"s{a}", f"a{a}{b}", f"s{b}", f"a{a}{b}") for a, b in PAIRS)
    known = J_ANSWERS.get(tuples, (None, None)) if window == WINDOW and seed is None else (None, None)
    data = clique(tuples, J_SEEDS.get(tuples, tuples) if seed is None else seed)
    return Workload(f"J{tuples // 1000}k", tuples, ("s1", "s2", "s3", "s4"), (), equalities, window, data, *known)


# --- J3: four streams, one common key ---------------------------------------------------------------------------------

J3_ANSWERS = {40_000: (692_221, 221_618_553_354), 200_000: (4_139_736, 6_631_033_073_985)}
J3_SEEDS = {40_000: 3, 200_000: 4}


def common_key(tuples: int, seed: int) -> dict[str, pa.Table]:
    g = np.random.Generator(np.random.PCG64(seed))
    times = np.arange(tuples, dtype=np.int32)
    quiet = times // PHASE % 4
    made = {}
    for s in range(1, 5):
        keys = _uniform(g, tuples, np.where(quiet == s - 1, 40_000, 4_000))
        made[f"s{s}"] = pa.table({"ts": times, "k": keys.astype(np.int32)})
    return made


def j3(tuples: int) -> Workload:
    equalities = tuple(("s1", "k", f"s{s}", "k") for s in range(2, 5))
    known = J3_ANSWERS.get(tuples, (None, None))
    data = common_key(tuples, J3_SEEDS.get(tuples, tuples))
    return Workload(f"J3_{tuples // 1000}k", tuples, ("s1", "s2", "s3", "s4"), (), equalities, WINDOW, data, *known)


# --- star: a stream that meets another stream and three tables --------------------------------------------------------


def star(tuples: int, seed: int = 5) -> Workload:
    """s1 joins s2 (10 s, 0.5 matches) and three tables. In each phase one table has only one key in twenty, the other
    two have all of them, twice. The right order visits the sparse table first, then s2."""
    g = np.random.Generator(np.random.PCG64(seed))
    keys, share = 10_000, 20
    times = np.arange(tuples, dtype=np.int32)
    phases = times // PHASE % 3
    columns = {"ts": times, "k": _uniform(g, tuples, 2 * WINDOW).astype(np.int32)}
    data: dict[str, pa.Table] = {}
    for t in range(3):
        values = _uniform(g, tuples, keys)
        poor = (phases == t) & (g.random(tuples) < 1 - 1 / share)
        columns[f"d{t + 1}"] = np.where(poor, values + keys, values).astype(np.int32)
    data["s1"] = pa.table(columns)
    data["s2"] = pa.table({"ts": times, "k": _uniform(g, tuples, 2 * WINDOW).astype(np.int32)})
    for t in range(3):
        twice = np.repeat(np.arange(keys, dtype=np.int32), 2)
        data[f"t{t + 1}"] = pa.table({"d": g.permutation(twice), "w": np.arange(2 * keys, dtype=np.int32)})
    equalities = (*(("s1", f"d{t}", f"t{t}", "d") for t in (1, 2, 3)), ("s1", "k", "s2", "k"))
    return Workload(f"star5_{tuples // 1000}k", tuples, ("s1", "s2"), ("t1", "t2", "t3"), equalities, WINDOW, data)


# --- kinds: one stream whose kinds of tuples need opposite orders ----------------------------------------------------


def kinds(tuples: int, seed: int = 8) -> Workload:
    """s1 joins two tables. For tuples of kind 0 the first table has one key in fifty, and the second has all of them, four
    times; for kind 1 it is the other way round. No single order suits both. The content reveals the kind."""
    g = np.random.Generator(np.random.PCG64(seed))
    keys, share = 10_000, 50
    kind = g.integers(0, 2, tuples)
    columns = {"ts": np.arange(tuples, dtype=np.int32), "kind": kind.astype(np.int32)}
    data: dict[str, pa.Table] = {}
    for t in range(2):
        values = _uniform(g, tuples, keys)
        poor = (kind == t) & (g.random(tuples) < 1 - 1 / share)
        columns[f"d{t + 1}"] = np.where(poor, values + keys, values).astype(np.int32)
    data["s1"] = pa.table(columns)
    for t in range(2):
        often = np.repeat(np.arange(keys, dtype=np.int32), 4)
        data[f"t{t + 1}"] = pa.table({"d": g.permutation(often), "w": np.arange(4 * keys, dtype=np.int32)})
    equalities = (("s1", "d1", "t1", "d"), ("s1", "d2", "t2", "d"))
    return Workload(f"kinds_{tuples // 1000}k", tuples, ("s1",), ("t1", "t2"), equalities, WINDOW, data)


# --- chain: six streams in a row --------------------------------------------------------------------------------------


def chain(tuples: int, seed: int = 6) -> Workload:
    """s1 - s2 - ... - s6, windows of two seconds. One link at a time is selective (0.05 matches; the others have 1.2)."""
    g = np.random.Generator(np.random.PCG64(seed))
    times = np.arange(tuples, dtype=np.int32)
    selective = times // PHASE % 5
    data = {}
    for s in range(1, 7):
        columns = {"ts": times}
        for link in (s - 1, s):
            if 1 <= link <= 5:
                size = np.where(selective == link - 1, CHAIN_WINDOW * 20, CHAIN_WINDOW * 10 // 12)
                columns[f"l{link}"] = _uniform(g, tuples, size).astype(np.int32)
        data[f"s{s}"] = pa.table(columns)
    equalities = tuple((f"s{k}", f"l{k}", f"s{k + 1}", f"l{k}") for k in range(1, 6))
    streams = tuple(f"s{s}" for s in range(1, 7))
    return Workload(f"chain6_{tuples // 1000}k", tuples, streams, (), equalities, CHAIN_WINDOW, data)


# --- plain scaling ----------------------------------------------------------------------------------------------------


def steady(tuples: int, window: int, *, streams: int = 3, values: int | None = None, seed: int = 7) -> Workload:
    """A clique without drift. Keys take as many values as the window has tuples, so every probe meets one candidate on
    average. With a given number of values, any two tuples match with the same probability whatever the window."""
    g = np.random.Generator(np.random.PCG64(seed))
    pairs = tuple(combinations(range(1, streams + 1), 2))
    data = {}
    for s in range(1, streams + 1):
        columns = {"ts": np.arange(tuples, dtype=np.int32)}
        for a, b in pairs:
            if s in (a, b):
                columns[f"a{a}{b}"] = _uniform(g, tuples, values or window).astype(np.int32)
        data[f"s{s}"] = pa.table(columns)
    equalities = tuple((f"s{a}", f"a{a}{b}", f"s{b}", f"a{a}{b}") for a, b in pairs)
    names = tuple(f"s{s}" for s in range(1, streams + 1))
    return Workload(f"steady_{tuples}_{window}", tuples, names, (), equalities, window, data)


def one_key(tuples: int, seed: int = 9) -> Workload:
    """Four streams with one common key, without drift: every probe meets one candidate on average."""
    g = np.random.Generator(np.random.PCG64(seed))
    times = np.arange(tuples, dtype=np.int32)
    names = ("s1", "s2", "s3", "s4")
    data = {s: pa.table({"ts": times, "k": _uniform(g, tuples, WINDOW).astype(np.int32)}) for s in names}
    equalities = tuple(("s1", "k", s, "k") for s in names[1:])
    return Workload(f"one_key_{tuples // 1000}k", tuples, names, (), equalities, WINDOW, data)


def lookups(tuples: int, seed: int = 10) -> Workload:
    """A stream and three tables, without drift: each table has half of the keys, once."""
    g = np.random.Generator(np.random.PCG64(seed))
    keys = 10_000
    columns = {"ts": np.arange(tuples, dtype=np.int32)}
    data: dict[str, pa.Table] = {}
    for t in (1, 2, 3):
        columns[f"d{t}"] = _uniform(g, tuples, 2 * keys).astype(np.int32)
        data[f"t{t}"] = pa.table({"d": g.permutation(np.arange(keys, dtype=np.int32))})
    data["s1"] = pa.table(columns)
    equalities = tuple(("s1", f"d{t}", f"t{t}", "d") for t in (1, 2, 3))
    return Workload(f"lookups_{tuples // 1000}k", tuples, ("s1",), ("t1", "t2", "t3"), equalities, WINDOW, data)


FULL: tuple[Callable[[], Workload], ...] = (
    lambda: j(40_000), lambda: j(200_000), lambda: j3(40_000), lambda: j3(200_000),
    lambda: star(200_000), lambda: chain(100_000),
)  # fmt: skip
QUICK: tuple[Callable[[], Workload], ...] = (
    lambda: j(40_000), lambda: j3(40_000), lambda: star(40_000), lambda: chain(40_000),
)  # fmt: skip
