"""Small random joins: SQL text, data, and the same question for the nested loop. One integer makes a whole case."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from tests.engine.nestedloop import Entry, answer

from thalweg.engine.engine import Engine
from thalweg.language.bind import bind
from thalweg.language.query import Query, Source

TYPES = {
    "a": pa.int32(),
    "b": pa.int64(),
    "c": pa.string(),
    "d": pa.float64(),
    "e": pa.decimal128(25, 2),
}


def equal(x: Any, y: Any) -> Any:
    """SQL equality as Spark has it."""
    if x is None or y is None:
        return None
    if isinstance(x, float) and isinstance(y, float) and math.isnan(x) and math.isnan(y):
        return True
    return x == y


@dataclass
class Case:
    seed: int
    text: str
    sources: dict[str, Source]
    data: dict[str, list[dict[str, Any]]]
    entries: list[Entry]
    predicates: list[tuple[tuple[str, ...], Any]]
    output: list[tuple[str, str]]
    lateness: int

    @property
    def query(self) -> Query:
        return bind(self.text, self.sources)

    def expected(self) -> Counter[tuple[Any, ...]]:
        return answer(self.entries, self.data, self.predicates, self.output)

    def table(self, source: str) -> pa.Table:
        return pa.Table.from_pylist(self.data[source], self.sources[source].schema)

    def describe(self) -> str:
        lines = [f"seed {self.seed}", self.text, f"lateness {self.lateness}"]
        lines += [f"{s}: {[tuple(r.values()) for r in rows]}" for s, rows in self.data.items()]
        return "\n".join(lines)


def make_case(seed: int, *, ordered: bool | None = None) -> Case:
    random = np.random.default_rng(seed)
    count = int(random.integers(2, 6))
    lateness = int(random.choice([0, 3, 10]))
    if ordered is None:
        ordered = bool(random.random() < 0.4)
    entries: list[Entry] = []
    sources: dict[str, Source] = {}
    data: dict[str, list[dict[str, Any]]] = {}
    rows = int(random.integers(3, [0, 0, 14, 9, 7, 6][count]))
    for i in range(count):
        streams = [e.source for e in entries if e.time is not None]
        source = f"s{i}"
        is_table = random.random() < 0.2 and (i > 0 or random.random() < 0.3)
        if streams and random.random() < 0.2:
            source, is_table = str(random.choice(streams)), False
        if source not in sources:
            fields = list(TYPES.items())
            schema = pa.schema(fields if is_table else [("ts", pa.int64()), *fields])
            sources[source] = Source(schema, None if is_table else "ts", "ms", lateness * 1000)
            data[source] = random_rows(random, rows, is_table, lateness)
        time = sources[source].time
        entries.append(Entry(f"x{i}", source, random_window(random, ordered) if time else ("unbounded",), time))
    predicates: list[tuple[tuple[str, ...], Any]] = []
    texts: list[str] = []
    shape = str(random.choice(["chain", "star", "random", "clique", "common"]))
    keys = ["a", "b", "c", "d", "e"]
    common = str(random.choice(keys))
    for i in range(1, count):
        partners = {"chain": [i - 1], "star": [0], "common": [0], "clique": list(range(i))}.get(shape, [])
        for j in partners or [int(random.integers(0, i))]:
            key = common if shape == "common" else str(random.choice(keys))
            add_equality(predicates, texts, f"x{i}", f"x{j}", key)
    if random.random() < 0.3:
        i, j = sorted(int(k) for k in random.choice(count, 2, replace=False))
        texts.append(f"x{i}.b < x{j}.b")
        predicates.append(((f"x{i}", f"x{j}"), lambda r, s: None if None in (r["b"], s["b"]) else r["b"] < s["b"]))
    if random.random() < 0.3:
        i = int(random.integers(0, count))
        texts.append(f"x{i}.a > 0")
        predicates.append(((f"x{i}",), lambda r: None if r["a"] is None else r["a"] > 0))
    if count > 2 and random.random() < 0.2:
        texts.append("x0.a + x1.a >= x2.a")
        predicates.append(
            (
                ("x0", "x1", "x2"),
                lambda r, s, t: None if None in (r["a"], s["a"], t["a"]) else r["a"] + s["a"] >= t["a"],
            )
        )
    output = [(f"x{i}", str(random.choice(["a", "b", "c", "d", "e"]))) for i in range(count)]
    output += [(e.alias, "ts") for e in entries if e.time is not None][:2]
    select = ", ".join(f"{a}.{c} AS o{k}" for k, (a, c) in enumerate(output))
    froms = ", ".join(f"{e.source} {window_text(e)} AS {e.alias}" for e in entries)
    text = f"SELECT {select} FROM {froms} WHERE {' AND '.join(texts)}"
    return Case(seed, text, sources, data, entries, predicates, output, lateness)


def add_equality(predicates: list[Any], texts: list[str], x: str, y: str, key: str) -> None:
    texts.append(f"{x}.{key} = {y}.{key}")
    predicates.append(((x, y), lambda r, s: equal(r[key], s[key])))


def window_text(entry: Entry) -> str:
    kind, *numbers = entry.window
    if entry.time is None:
        return ""
    return {
        "range": lambda: f"[RANGE {numbers[0]} MILLISECONDS]",
        "now": lambda: "[NOW]",
        "unbounded": lambda: "[UNBOUNDED]",
        "rows": lambda: f"[ROWS {numbers[0]}]",
        "partition": lambda: f"[PARTITION BY {', '.join(numbers[1])} ROWS {numbers[0]}]",
    }[kind]()


def random_window(random: np.random.Generator, ordered: bool) -> tuple[Any, ...]:
    kinds = ["range", "range", "now", "unbounded"] + (["rows", "partition"] * 2 if ordered else [])
    kind = str(random.choice(kinds))
    if kind == "range":
        return kind, int(random.choice([0, 1, 5, 20]))
    if kind == "rows":
        return kind, int(random.integers(1, 6))
    if kind == "partition":
        return kind, int(random.integers(1, 4)), [("a",), ("a", "c"), ("d",)][int(random.integers(0, 3))]
    return (kind,)


def random_rows(random: np.random.Generator, count: int, table: bool, lateness: int) -> list[dict[str, Any]]:
    clock = 0
    rows = []
    domain = int(random.integers(1, 4))
    for _ in range(count):
        clock += int(random.integers(0, 4))
        row: dict[str, Any] = {} if table else {"ts": max(clock - int(random.integers(0, lateness + 1)), 0)}
        row["a"] = int(random.integers(0, domain))
        row["b"] = int(random.integers(-1, domain))
        row["c"] = ["", "longer than eight", "x"][int(random.integers(0, domain))]
        row["d"] = [0.0, math.nan, -0.0, 1.5][int(random.integers(0, domain + 1))]
        row["e"] = Decimal(int(random.integers(0, domain))) / 4
        for name in TYPES:
            if random.random() < 0.08:
                row[name] = None
        rows.append(row)
    return rows


def comparable(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def normal(results: Counter[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    out: Counter[tuple[Any, ...]] = Counter()
    for row, times in results.items():
        out[tuple(comparable(v) for v in row)] += times
    return out


def rows_of(table: pa.Table) -> Counter[tuple[Any, ...]]:
    columns = [table.column(i).to_pylist() for i in range(table.num_columns)]
    return Counter(zip(*columns, strict=True))


def random_options(case: Case, random: np.random.Generator) -> dict[str, Any]:
    """An engine's options drawn at random: none of them may change the answer."""
    layouts: dict[str, Any] = {}
    for e in case.entries:
        layouts[e.alias] = str(random.choice(["hash", "bits"]))
    return {
        "policy": str(random.choice(["written", "lottery", "chaos", "chaos", "auto", "agreedy", "cbr", "mesh"])),
        "seed": int(random.integers(0, 1000)),
        "layout": layouts,
        "slice_rows": int(random.choice([1, 2, 5, 1024])),
        "buffer": int(random.choice([1, 3, 1 << 14])),
        "tables": {s: case.table(s) for s, spec in case.sources.items() if spec.time is None},
    }


def pushes(case: Case, random: np.random.Generator) -> list[tuple[str, pa.Table]]:
    """The streams cut into random batches, interleaved at random; each source keeps its order."""
    queues: dict[str, list[pa.Table]] = {}
    for source, spec in case.sources.items():
        if spec.time is None:
            continue
        table, at, batches = case.table(source), 0, []
        size = int(random.choice([1, 2, 3, 100]))
        while at < table.num_rows:
            rows = int(random.integers(0, size + 1))
            batches.append(table.slice(at, rows))
            at += rows
        queues[source] = batches
    order = [s for s, batches in queues.items() for _ in batches]
    random.shuffle(order)
    return [(s, queues[s].pop(0)) for s in order]


def watermark(case: Case, source: str, sent: int) -> int:
    """The highest watermark that no tuple still to come violates."""
    times = [r["ts"] for r in case.data[source]]
    rest = times[sent:]
    return min(rest) if rest else max(times, default=0) + 1


def run(
    case: Case, random: np.random.Generator, options: dict[str, Any], *, hop: bool = False
) -> Counter[tuple[Any, ...]]:
    """Push everything with watermarks in between; with `hop`, move to a new engine by a snapshot now and then."""
    engine = Engine(case.query, **options)
    found: Counter[tuple[Any, ...]] = Counter()
    sent = dict.fromkeys(case.sources, 0)
    for source, batch in pushes(case, random):
        found += rows_of(engine.push(source, batch))
        sent[source] += batch.num_rows
        if random.random() < 0.4:
            streams = [s for s, spec in case.sources.items() if spec.time and random.random() < 0.7]
            found += rows_of(engine.advance({s: watermark(case, s, sent[s]) for s in streams}))
        if hop and random.random() < 0.3:
            parts = engine.snapshot()
            engine = Engine(case.query, **options)
            engine.restore(parts)
    return found + rows_of(engine.close())
