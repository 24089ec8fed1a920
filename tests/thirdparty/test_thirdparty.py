"""A policy of another package: found by its entry point, passes every check, and orders a join."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.thirdparty.src.thalweg_fewest import Fewest

from thalweg.testing import Check, checks

HERE = Path(__file__).parent
PROJECT = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]

BY_NAME = """
import pyarrow as pa
import thalweg as tw
from thalweg import optimize
from thalweg.testing import joincourse

assert "fewest" in optimize.names()
run = joincourse.meeting().run(lambda pipeline, seed: optimize.make("fewest", pipeline, seed))
events = [event for step in run.steps() for of_input in step.events for event in of_input]
assert {event.by for event in events} == {"fewest"}
source = tw.Source(pa.schema([("ts", pa.int64()), ("k", pa.int64())]), "ts", "ms")
text = "SELECT a.ts AS x, b.ts AS y FROM a [RANGE 5 MILLISECONDS], b [RANGE 5 MILLISECONDS] WHERE a.k = b.k"
engine = tw.Engine(text, {"a": source, "b": source}, policy="fewest")
engine.push("a", pa.table({"ts": [1, 2], "k": [7, 8]}))
print(engine.push("b", pa.table({"ts": [3], "k": [7]})).to_pylist(), len(events))
"""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder as `pip install --target` would leave it: the package and its dist-info."""
    info = tmp_path / f"{PROJECT['name'].replace('-', '_')}-{PROJECT['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {PROJECT['name']}\nVersion: {PROJECT['version']}\n")
    groups = PROJECT["entry-points"].items()
    lines = [f"[{group}]\n" + "\n".join(f"{k} = {v}" for k, v in entries.items()) for group, entries in groups]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    (tmp_path / "thalweg_fewest").symlink_to(HERE / "src" / "thalweg_fewest")
    return tmp_path


def test_it_is_found_by_its_entry_point(installed: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BY_NAME], capture_output=True, text=True, env={"PYTHONPATH": str(installed)}, check=False
    )
    assert done.returncode == 0, done.stderr
    found, events = done.stdout.strip().rsplit(" ", 1)
    assert found == "[{'x': 1, 'y': 3}]"
    assert int(events) >= 2


@pytest.mark.parametrize("check", list(checks(Fewest)), ids=lambda c: c.__name__)
def test_it_conforms(check: Check) -> None:
    check()


def test_it_is_small() -> None:
    assert len((HERE / "src" / "thalweg_fewest" / "__init__.py").read_text().splitlines()) <= 60
