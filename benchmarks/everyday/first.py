"""`python -m benchmarks.everyday.first`: from nothing to the first row of a streaming join, part by part.

Each round is a fresh process: once with an empty cache of compiled kernels, as after an installation, then with a full
one. Processor seconds of this process are beside the clock's, which on a busy machine shows mostly other programs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer


def main(
    rounds: Annotated[int, typer.Option(help="Rounds with a full cache of kernels.")] = 2,
    cold: Annotated[bool, typer.Option(help="One round with an empty cache before.")] = True,
    inside: Annotated[str, typer.Option(hidden=True)] = "",
) -> None:
    if inside:
        print(json.dumps(measured(Path(inside))))
        return
    with tempfile.TemporaryDirectory() as home:
        kernels = Path(home) / "kernels"
        told = {}
        for n in range(rounds + cold):
            place = Path(home) / str(n)
            place.mkdir()
            command = [sys.executable, "-m", "benchmarks.everyday.first", "--inside", str(place)]
            env = os.environ | ({"NUMBA_CACHE_DIR": str(kernels)} if cold else {})
            done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
            told["no kernels" if cold and not n else f"round {n + 1 - cold}"] = json.loads(done.stdout.splitlines()[-1])
    typer.echo(
        f"seconds by the clock (processor seconds of the driver's Python); load average {os.getloadavg()[0]:.1f}"
    )
    for part in next(iter(told.values())):
        shown = "".join(f"{t[part][0]:9.2f} ({t[part][1]:.2f})" if t[part][1] is not None else f"{t[part][0]:9.2f}       "
                        for t in told.values())  # fmt: skip
        typer.echo(f"{part:<34}{shown}")


def measured(home: Path) -> dict[str, tuple[float, float | None]]:
    """Seconds of each part, in this process."""
    found: dict[str, tuple[float, float | None]] = {}
    began = time.perf_counter()

    def part(name: str, do: Callable[[], Any]) -> Any:
        at = time.perf_counter(), time.process_time()
        made = do()
        found[name] = time.perf_counter() - at[0], time.process_time() - at[1]
        return made

    part("import thalweg, with its kernels", _imports)
    import thalweg as tw
    from benchmarks.everyday import contenders as c

    c.write(home / "in", 3000, 2)
    spark = part("a session (Spark's)", lambda: tw.session(spark_master="local[2]", spark_sql_shuffle_partitions=2))
    df = part("tw.sql", lambda: c.ours(spark, home / "in", "spark"))
    writer = df.writeStream.format("parquet").option("checkpointLocation", str(home / "check"))
    query = part("start()", lambda: writer.start(str(home / "out")))
    part("until the first batch is written", lambda: _first(query))
    query.stop()
    found["all"] = time.perf_counter() - began, time.process_time()
    line = tw.query("everyday").stages().iloc[0]
    for stage in ("source", "pack", "shuffle", "state load", "join", "state commit", "unpack", "sink", "spark"):
        found[f"  first batch: {stage}"] = float(line[stage]), None
    spark.stop()
    return found


def _imports() -> None:
    import thalweg as tw

    _ = tw.sql


def _first(query: Any) -> None:
    while not (query.lastProgress and query.lastProgress["numInputRows"]):
        if query.exception() is not None:
            raise query.exception()
        time.sleep(0.02)


if __name__ == "__main__":
    typer.run(main)
