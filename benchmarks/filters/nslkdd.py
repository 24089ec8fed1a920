"""Real connections, realistic predicates: NSL-KDD (25,192 connections of a network), six row functions.

The data is not part of the package. The benchmark looks for it under the name in THALWEG_NSL_KDD, then in out/data. If it
is missing, the section says so. The predicates are of the kinds people write: a regular expression, a look-up in a block
list of networks, a fingerprint, a parsed record, a distance to known profiles, and a scored model. Nothing is
constructed: the verdicts come from the data, and every policy must give the same rows.
"""

from __future__ import annotations

import csv
import json
import math
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from time import process_time

import numpy as np
import pyarrow as pa

from benchmarks.filters.engine import WrongAnswer
from thalweg import optimize
from thalweg.contract.batch import Batch
from thalweg.execute.fabric import Fabric
from thalweg.execute.filters import Filter
from thalweg.plan import Operator, Pipeline

FILE = "KDDTrain+_20Percent.txt"
NUMBERS = {
    "duration": 0, "src_bytes": 4, "dst_bytes": 5, "count": 22, "srv_count": 23, "serror_rate": 24, "rerror_rate": 26,
    "same_srv_rate": 28, "diff_srv_rate": 29, "dst_host_count": 31, "dst_host_srv_count": 32,
}  # fmt: skip
WORDS = {"protocol": 1, "service": 2, "flag": 3}


def found() -> Path | None:
    """Path of the data, if it is available."""
    named = os.environ.get("THALWEG_NSL_KDD")
    for path in (Path(named) if named else None, Path("out/data") / FILE):
        if path is not None and path.exists():
            return path
    return None


def table(path: Path, rows: int | None = None) -> pa.Table:
    with path.open() as lines:
        read = list(csv.reader(lines))[:rows]
    columns: dict[str, pa.Array] = {}
    for name, k in WORDS.items():
        columns[name] = pa.array([r[k] for r in read])
    for name, k in NUMBERS.items():
        columns[name] = pa.array([float(r[k]) for r in read])
    columns["raw"] = pa.array(
        [json.dumps(dict(zip(("proto", "service", "flag"), r[1:4], strict=True)) | {"f": r[4:41]}) for r in read]
    )
    return pa.table(columns)


Row = Callable[..., bool]


def predicates() -> list[tuple[str, Row, tuple[str, ...]]]:
    """The predicates as a user might write them, in no particular order."""
    web = re.compile(
        r'"service": "(?:http|ftp|smtp|domain|telnet|private|ecr)[^"]*", "flag": "(?:S\d|RST\w*|REJ|SF)".*"\d{2,}"'
    )
    weights = (0.8, -0.6, 1.1, 0.4, -0.9, 0.5)
    profiles = [tuple(math.sin(3.0 * i + j) * 0.5 + 0.5 for j in range(6)) for i in range(12)]

    def speaks(raw: str) -> bool:
        return web.search(raw) is not None

    def unlisted(service: str, flag: str, count: float) -> bool:
        print_ = f"{service}/{flag}/{int(count) // 8}".encode()
        for _ in range(6):
            print_ = sha256(print_).digest()
        return print_[0] >= 64

    def well_formed(raw: str) -> bool:
        record = json.loads(raw)
        return sum(float(x) for x in record["f"][:20]) < 400

    def far(
        serror_rate: float,
        rerror_rate: float,
        same_srv_rate: float,
        diff_srv_rate: float,
        count: float,
        srv_count: float,
    ) -> bool:
        here = (
            serror_rate,
            rerror_rate,
            same_srv_rate,
            diff_srv_rate,
            min(count / 255, 1.0),
            min(srv_count / 255, 1.0),
        )
        nearest = min(sum((a - b) ** 2 for a, b in zip(here, p, strict=True)) for p in profiles)
        return nearest > 0.18

    def scored(
        serror_rate: float,
        same_srv_rate: float,
        dst_host_count: float,
        dst_host_srv_count: float,
        src_bytes: float,
        dst_bytes: float,
    ) -> bool:
        x = (
            serror_rate,
            same_srv_rate,
            dst_host_count / 255,
            dst_host_srv_count / 255,
            math.log1p(src_bytes) / 10,
            math.log1p(dst_bytes) / 10,
        )
        score = 0.0
        for step in range(8):
            score = math.tanh(sum(w * v for w, v in zip(weights, x, strict=True)) + 0.3 * score - 0.05 * step)
        return score > 0.1

    def busy(count: float, srv_count: float, duration: float) -> bool:
        load = 0.0
        for k in range(1, 24):
            load += math.exp(-k / 12) * math.sqrt(count + srv_count / k)
        return load + duration / 1000 > 25

    return [
        ("well_formed", well_formed, ("raw",)),
        ("speaks", speaks, ("raw",)),
        ("unlisted", unlisted, ("service", "flag", "count")),
        ("far", far, ("serror_rate", "rerror_rate", "same_srv_rate", "diff_srv_rate", "count", "srv_count")),
        ("scored", scored, ("serror_rate", "same_srv_rate", "dst_host_count", "dst_host_srv_count", "src_bytes", "dst_bytes")),
        ("busy", busy, ("count", "srv_count", "duration")),
    ]  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """One policy over the connections."""

    policy: str
    rows_out: int
    calls_per_row: float
    judged: float
    """CPU seconds that the calls correspond to, each at the mean price of its predicate over all policies, which removes
    the noise of a single run."""
    cpu: float
    classes: int
    calls: tuple[int, ...]


def run(data: pa.Table, policies: tuple[str, ...], *, rounds: int = 4, seed: int = 0) -> list[Outcome]:
    """Run every policy over the rows, `rounds` times in a row, in chunks of 1,000; the policies take turns."""
    filters = [Filter(name, function, columns) for name, function, columns in predicates()]
    pipeline = Pipeline("connections", tuple(Operator(f.name) for f in filters))
    whole = data.combine_chunks().to_batches()[0]
    pieces = [whole.slice(a, 1000) for a in range(0, whole.num_rows, 1000)] * rounds
    chosen = {p: optimize.make(p, pipeline, seed) for p in policies}
    fabric = Fabric(pipeline, filters)
    cpu = dict.fromkeys(policies, 0.0)
    out = dict.fromkeys(policies, 0)
    calls = {p: np.zeros(len(filters)) for p in policies}
    seconds = {p: np.zeros(len(filters)) for p in policies}
    for number, piece in enumerate(pieces):
        kept = {}
        for p in policies:
            started = process_time()
            batch = Batch(piece, number)
            keep, visits = fabric.filter(batch, chosen[p].route(batch))
            chosen[p].observe(visits)
            cpu[p] += process_time() - started
            kept[p] = keep
            out[p] += int(keep.sum())
            for j in visits.journeys:
                for v in j.visits:
                    calls[p][v.operator] += v.rows_in + v.extra
                    seconds[p][v.operator] += v.seconds + v.extra_seconds
        if any((keep != kept[policies[0]]).any() for keep in kept.values()):
            raise WrongAnswer(f"policies disagree on the rows of chunk {number}")
    price = sum(seconds.values()) / np.maximum(sum(calls.values()), 1)
    rows = len(pieces) and sum(p.num_rows for p in pieces)
    return [
        Outcome(
            p, out[p], float(calls[p].sum() / rows), float(calls[p] @ price), cpu[p], len(chosen[p].plan.routes),
            tuple(int(c) for c in calls[p]),
        )
        for p in policies
    ]  # fmt: skip
