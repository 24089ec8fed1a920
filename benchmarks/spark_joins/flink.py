"""PyFlink's interval joins over the rows of a feed.

PyFlink cannot share our dependencies. It runs in an interpreter of its own, as `flink_job.py`, and we talk to it in JSON.
The query has the form of Spark's own joins: streams are joined in the order written, the first one's time stays the event
time, and all others become numbers. Flink's wheel reads no Parquet, so it gets the same rows as CSV, one file per stream;
with several files its readers would take them in any order, and rows would be late.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from benchmarks.joins.workloads import Workload
from benchmarks.spark_joins.streams import EPOCH_MS, Feed

JOB = Path(__file__).with_name("flink_job.py")
INSTALL = "python3.11 -m venv out/flink && out/flink/bin/pip install apache-flink==2.3.0 setuptools"
ABSENT = f"not compared; `{INSTALL}` installs it in an interpreter of its own, `--flink out/flink/bin/python` runs it"
HEAP = "5g"
"""Heap size; the same as for Spark's driver."""
WARM_UP, FEW = 12_500, 500
"""Rows per stream in the warm-up job, and in the job that measures the cost of starting."""


class FlinkFailed(Exception):
    """The interpreter has no PyFlink, or the job failed."""


@dataclass
class FlinkRun:
    """One feed, read to its end, and Thalweg's cost for the same rows in the same run."""

    feed: str
    batch: int
    batches: int
    parallelism: int
    seconds: float = 0.0
    """Seconds from submitting the job to its last result, or the limit if it was cut off."""
    start: float = 0.0
    """Seconds of the same job over a handful of rows."""
    cpu: float = 0.0
    """Processor seconds of all its processes, including the start."""
    memory: int = 0
    """Resident bytes of all its processes when it ended."""
    count: int = 0
    checksum: int = 0
    between: list[int] = field(default_factory=list)
    """Rows output by each join but the last, as last reported. The next join keeps them as its state."""
    version: str = ""
    cut_off: bool = False
    ours: float = 0.0
    """Seconds of all of Thalweg's batches, including the first."""
    ours_cpu: float = 0.0

    @property
    def rows(self) -> int:
        return self.batch * self.batches

    @property
    def answer(self) -> tuple[int, int]:
        return self.count, self.checksum

    @property
    def net(self) -> float:
        """Seconds minus the start; all seconds if the start is most of them and the rest would be noise."""
        return self.seconds - self.start if self.start < self.seconds / 2 else self.seconds

    @property
    def rows_per_second(self) -> float:
        """An upper bound if it was cut off."""
        return self.rows / self.net

    @property
    def ratio(self) -> float:
        """Thalweg's rows/s relative to Flink's; a lower bound if Flink was cut off."""
        return self.rows / self.ours / self.rows_per_second

    @property
    def processor_ratio(self) -> float:
        return self.cpu / self.ours_cpu


def is_in(python: Path) -> bool:
    """Whether this interpreter has PyFlink."""
    find = "import importlib.util, sys; sys.exit(importlib.util.find_spec('pyflink') is None)"
    try:
        return subprocess.run([str(python), "-c", find], check=False).returncode == 0
    except OSError:
        return False


def tables(w: Workload, folder: Path) -> list[str]:
    """The tables over the files, with the same watermark as Spark's."""
    made = []
    for s in w.streams:
        keys = ", ".join(f"{c} INT" for c in keys_of(w, s))
        made += [
            f"DROP TEMPORARY TABLE IF EXISTS {s}",
            f"CREATE TEMPORARY TABLE {s} (ms BIGINT, {keys}, ts AS TO_TIMESTAMP_LTZ({EPOCH_MS} + ms, 3), "
            "WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) WITH ('connector' = 'filesystem', 'format' = 'csv', "
            f"'path' = 'file://{(folder / s).absolute()}')",
        ]
    return made


def query(w: Workload) -> str:
    """The chain of joins, then the count and the weighted sum of times, by which answers are compared. Each join has one
    condition on event times; with a second one, Flink plans a join that keeps its inputs for ever."""
    first, *others = w.streams
    columns = {f"{first}_ms": "ms", **{f"{first}_{c}": c for c in keys_of(w, first)}}
    chain = f"SELECT ts, {', '.join(f'{c} AS {name}' for name, c in columns.items())} FROM {first}"
    window = f"INTERVAL '{(w.window - 1) / 1000:.3f}' SECOND"
    known, bound = list(columns), [first]
    for s in others:
        on = [f"l.{a}_{x} = r.{y}" for a, x, b, y in w.equalities if b == s and a in bound]
        on.append(f"r.ts BETWEEN l.ts - {window} AND l.ts + {window}")
        on += [f"ABS(r.ms - l.{b}_ms) < {w.window}" for b in bound[1:]]
        new = {f"{s}_ms": "ms", **{f"{s}_{c}": c for c in keys_of(w, s)}}
        picked = ["l.ts", *(f"l.{name}" for name in known), *(f"r.{c} AS {name}" for name, c in new.items())]
        chain = f"SELECT {', '.join(picked)} FROM ({chain}) AS l JOIN {s} AS r ON {' AND '.join(on)}"
        known += new
        bound.append(s)
    total = " + ".join(f"{weight} * {s}_ms" for s, weight in w.weights().items())
    return f"SELECT COUNT(*), SUM({total}) FROM ({chain})"


def keys_of(w: Workload, stream: str) -> list[str]:
    return [c for c in w.data[stream].column_names if c != "ts"]


def write_csv(feed: Feed, folder: Path, rows: int | None = None) -> Path:
    """The rows of the feed's files, or only the first ones, with their milliseconds since the first."""
    for s in feed.workload.streams:
        parts = sorted((feed.folder / s).iterdir())
        table = pa.concat_tables(pq.read_table(p) for p in parts).slice(0, rows)
        since = pc.subtract(table["ts"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64()), EPOCH_MS)
        (folder / s).mkdir(parents=True, exist_ok=True)
        options = pa.csv.WriteOptions(include_header=False)
        pa.csv.write_csv(table.set_column(0, "ts", since), folder / s / "rows.csv", options)
    return folder


def run(python: Path, feed: Feed, home: Path, limit: float, parallelism: int = 2) -> FlinkRun:
    """Warm up, measure the start, then read the whole feed. Each step is cut off at the limit."""
    w = feed.workload
    jobs = [
        {"name": name, "tables": tables(w, write_csv(feed, home / name, rows)), "query": query(w)}
        for name, rows in (("warm up", WARM_UP), ("start", FEW), ("whole", None))
    ]
    told = talk(python, {"parallelism": parallelism, "port": free_port(), "jobs": jobs}, home / "stderr.txt", limit)
    return taken(feed, parallelism, told, limit)


def taken(feed: Feed, parallelism: int, told: list[dict[str, Any]], limit: float) -> FlinkRun:
    """The reports of the job, each with the processor time up to then."""
    result = FlinkRun(feed.shape, feed.batch, feed.batches, parallelism)
    at = {(line["job"], line["begins"]): line for line in told}
    if ("start", False) in at:
        result.start = at["start", False]["seconds"]
    whole = at.get(("whole", False))
    if whole is None:
        result.cut_off, result.seconds = True, limit
        return result
    joins = len(feed.workload.streams) - 1
    if whole["interval_joins"] != joins:
        raise FlinkFailed(
            f"Flink planned {whole['interval_joins']} interval joins, not {joins}: the rest keep all rows"
        )
    result.seconds, result.cpu = whole["seconds"], whole["cpu"] - at["whole", True]["cpu"]
    result.count, result.checksum, result.between = whole["count"], whole["checksum"], whole["between"]
    result.memory, result.version = whole["memory"], whole["version"]
    return result


def talk(python: Path, order: dict[str, Any], errors: Path, limit: float) -> list[dict[str, Any]]:
    """Every line that the job prints, with the processor time and memory of its processes at that moment. A job that
    prints nothing for longer than the limit is ended, and only what it printed so far counts."""
    told: list[dict[str, Any]] = []
    late = threading.Event()
    environment = {**os.environ, "JAVA_TOOL_OPTIONS": f"-Xmx{HEAP}"}
    with errors.open("w") as stderr:
        job = subprocess.Popen(
            [str(python), str(JOB)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True,
            env=environment, cwd=errors.parent,
        )  # fmt: skip

    def end() -> None:
        late.set()
        kill(job.pid)

    timer = threading.Timer(limit, end)
    timer.start()
    try:
        assert job.stdin is not None
        assert job.stdout is not None
        job.stdin.write(json.dumps(order))
        job.stdin.close()
        for line in job.stdout:
            if not line.startswith('{"job"'):
                continue
            timer.cancel()
            cpu, memory = spent(job.pid)
            told.append({**json.loads(line), "cpu": cpu, "memory": memory})
            timer = threading.Timer(limit, end)
            timer.start()
        code = job.wait()
    finally:
        timer.cancel()
        if job.poll() is None:
            kill(job.pid)
    if code and not late.is_set():
        raise FlinkFailed(
            f"{python} ended with {code}: {cause(errors.read_text())}\nPyFlink is installed by `{INSTALL}`."
        )
    return told


def cause(errors: str) -> str:
    """The innermost of Java's causes, or the last line."""
    lines = errors.strip().splitlines() or ["it said nothing"]
    return next((line for line in reversed(lines) if line.startswith("Caused by: ")), lines[-1])


def spent(pid: int) -> tuple[float, int]:
    """Processor seconds and resident bytes of a process and all below it."""
    cpu, memory = 0.0, 0
    for process in family(pid):
        try:
            times = process.cpu_times()
            cpu, memory = cpu + times.user + times.system, memory + process.memory_info().rss
        except psutil.Error:
            continue
    return cpu, memory


def kill(pid: int) -> None:
    for process in family(pid):
        try:
            process.kill()
        except psutil.Error:
            continue


def family(pid: int) -> list[psutil.Process]:
    try:
        head = psutil.Process(pid)
        return [head, *head.children(recursive=True)]
    except psutil.Error:
        return []


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("localhost", 0))
        return int(s.getsockname()[1])
