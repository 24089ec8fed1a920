"""Kills of the driver at random moments, counted: joins are killed and started again, and their rows compared with DuckDB's.

`python -m tests.kills --count 200` goes on until that many drivers were killed, or for `--minutes`, and adds what was seen
to kills.json. Every run draws the query, where its state lies, and whether each start has another number of cells.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
from tests.spark import joinshapes
from tests.spark.joinshapes import SHAPES
from tests.spark.test_sql_faults import kill_and_restart

RECORD = Path(__file__).with_suffix(".json")
CASES = [("two streams", "spark"), ("two streams", "files"), ("a star with a table", "spark")]


def written(folder: Path) -> list[tuple[Any, ...]]:
    """The rows of a file sink, as its own log lists them."""
    listed: set[str] = set()
    for log in (folder / "out" / "_spark_metadata").iterdir():
        if log.name.split(".")[0].isdigit():  # every tenth is a list of all before it
            lines = log.read_text().splitlines()[1:]
            listed |= {json.loads(line)["path"].removeprefix("file://") for line in lines}
    rows = ds.dataset(sorted(listed), format="parquet").to_table().to_pylist()
    return sorted(tuple(r.values()) for r in rows)


def once(seed: int, kills: int) -> dict[str, Any]:
    """One query, killed that often."""
    draw = random.Random(seed)
    name, state = draw.choice(CASES)
    moves = draw.random() < 0.7
    cells = tuple(draw.sample((1, 2, 3, 4), 4)) if moves else 2
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        killed = kill_and_restart(folder, name, kills, kills * 5, seed, cells, moves=moves, state=state)
        found, answer = written(folder), joinshapes.answer(SHAPES[name])
    lost, more = (Counter(answer) - Counter(found)).total(), (Counter(found) - Counter(answer)).total()
    seen = {"seed": seed, "query": name, "state": state, "moves": moves}
    return seen | {"kills": killed, "lost": lost, "doubled": more}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--each", type=int, default=8, help="kills of one query")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    asked = parser.parse_args()
    end, seed, killed = time.monotonic() + 60 * asked.minutes, asked.seed, 0
    while killed < asked.count and time.monotonic() < end:
        seen = once(seed, min(asked.each, asked.count - killed)) | {"on": f"{datetime.now(UTC):%Y-%m-%d}"}
        killed, seed = killed + int(seen["kills"]), seed + 1
        print(killed, seen, flush=True)
        record = json.loads(RECORD.read_text()) if RECORD.exists() else []
        RECORD.write_text("[\n" + ",\n".join(json.dumps(r) for r in [*record, seen]) + "\n]\n")


if __name__ == "__main__":
    main()
