"""From a new process to the first result: with nothing compiled, and with Numba's cache warm.

The libraries that Thalweg builds on are imported first and timed separately, to show its own share. We measure processor
seconds, because a start is too short for the wall clock on a shared machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

FIRST_RESULT = """
import json, time
marks = [time.process_time()]
import numba, numpy, pandas, pyarrow as pa, pyarrow.compute
marks.append(time.process_time())
from thalweg.engine.engine import Engine
from thalweg.language.bind import bind
from thalweg.language.query import Source
marks.append(time.process_time())
schema = pa.schema([("ts", pa.int64()), ("k", pa.int64())])
streams = {n: Source(schema, "ts", "ms") for n in "abc"}
text = "SELECT a.ts, b.ts AS other FROM a, b, c WHERE a.k = b.k AND b.k = c.k WINDOW 1 SECOND"
engine = Engine(bind(text, streams), policy="auto")
rows = pa.table({"ts": list(range(100)), "k": [i % 10 for i in range(100)]}, schema=schema)
found = sum(engine.push(n, rows).num_rows for n in "abc")
assert found == 10_000, found
engine.advance(5_000)
marks.append(time.process_time())
print(json.dumps([b - a for a, b in zip(marks, marks[1:])]))
"""


@dataclass(frozen=True)
class Start:
    """Processor seconds to import the libraries, to import Thalweg, and to get the first results."""

    libraries: float
    thalweg: float
    first: float

    @property
    def own(self) -> float:
        return self.thalweg + self.first


def measure(cached_rounds: int = 3) -> tuple[Start, Start]:
    """Once with an empty cache, then the best of several with a full one."""
    with tempfile.TemporaryDirectory() as folder:
        cold = _once(Path(folder))
        warm = [_once(Path(folder)) for _ in range(cached_rounds)]
    return cold, min(warm, key=lambda s: s.own)


def _once(cache: Path) -> Start:
    # Byte code is cached as well, whatever the shell that runs the benchmark says.
    env = os.environ | {"NUMBA_CACHE_DIR": str(cache), "PYTHONPYCACHEPREFIX": str(cache / "pyc")}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run([sys.executable, "-c", FIRST_RESULT], env=env, capture_output=True, text=True, check=True)
    return Start(*json.loads(done.stdout))
