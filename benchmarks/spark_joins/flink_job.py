"""Runs in an interpreter that has PyFlink, and imports nothing from this repository.

Reads one JSON value from stdin: `parallelism`, `port` and `jobs`, each with its `name`, its `tables` (DDL) and its
`query`, which yields a count and a sum. Writes two JSON lines per job to stdout: when it starts, and its outcome.
All jobs run in one JVM, one after another, so an earlier one can warm up a later one.
"""

import contextlib
import importlib.metadata
import json
import sys
import threading
import time
import urllib.request

from pyflink.table import EnvironmentSettings, TableEnvironment

SETTINGS = {
    # Counting results one by one would cost more than finding them, because each would be a retraction and a new count.
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "2 s",
    "table.exec.mini-batch.size": "100000",
    "pipeline.object-reuse": "true",
    "metrics.fetcher.update-interval": "500",
}


def main() -> None:
    order = json.load(sys.stdin)
    env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    config = env.get_config()
    ports = {"rest.port": order["port"], "rest.bind-port": order["port"]}
    for key, value in {**SETTINGS, **ports, "parallelism.default": order["parallelism"]}.items():
        config.set(key, str(value))
    for job in order["jobs"]:
        for ddl in job["tables"]:
            env.execute_sql(ddl)
        plan = env.explain_sql(job["query"])
        interval_joins = plan.split("== Optimized Execution Plan ==")[-1].count("IntervalJoin(")
        tell(job, begins=True)
        with watched(order["port"]) as passed:
            began = time.monotonic()
            count, checksum = last(env.execute_sql(job["query"]))
            seconds = time.monotonic() - began
        tell(
            job, begins=False, seconds=seconds, count=count, checksum=checksum, between=passed,
            interval_joins=interval_joins, version=importlib.metadata.version("apache-flink"),
        )  # fmt: skip


def tell(job: dict, **words: object) -> None:
    print(json.dumps({"job": job["name"], **words}), flush=True)


def last(result) -> tuple:
    """The latest count and sum; Flink corrects them as results arrive."""
    newest = (0, 0)
    with result.collect() as rows:
        for row in rows:
            newest = (row[0], row[1] or 0)
    return newest


@contextlib.contextmanager
def watched(port: int):
    """Rows output by each join but the last, as last reported by Flink while the job ran."""
    passed: list = []
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.5):
            # The cluster comes and goes with the job, so no answer means no news.
            with contextlib.suppress(OSError, ValueError, KeyError):
                for job in ask(port, "/jobs")["jobs"]:
                    vertices = ask(port, f"/jobs/{job['id']}")["vertices"]
                    joins = [v["metrics"]["write-records"] for v in vertices if v["name"].startswith("IntervalJoin")]
                    passed[:] = joins[:-1]

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield passed
    finally:
        over.set()
        thread.join()


def ask(port: int, path: str) -> dict:
    with urllib.request.urlopen(f"http://localhost:{port}{path}", timeout=5) as answer:
        return json.loads(answer.read())


if __name__ == "__main__":
    main()
