"""The package as users get it: what is in the sdist and the wheel, and that it installs where there is nothing else."""

from __future__ import annotations

import email
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import thalweg

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The sdist, and the wheel made from it."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return sdist, wheel


def test_the_wheel_holds_the_package_and_nothing_else(built):
    names = zipfile.ZipFile(built[1]).namelist()
    assert {n.split("/")[0] for n in names} == {"thalweg", f"thalweg-{thalweg.__version__}.dist-info"}
    assert "thalweg/py.typed" in names
    assert "thalweg/watch/report.css" in names
    assert "thalweg/app/example/app.toml" in names
    assert not [n for n in names if "/records/" in n]
    sources = {str(p.relative_to(ROOT / "src")) for p in (ROOT / "src" / "thalweg").rglob("*.py")}
    assert sources <= {*names, *(s for s in sources if "/records/" in s)}


def test_the_sdist_builds_that_wheel_and_is_small(built):
    with tarfile.open(built[0]) as archive:
        names = archive.getnames()
    assert any(n.endswith("/LICENSE") for n in names)
    assert not [n for n in names if re.search(r"/(\.venv|out|tests|\.git|benchmarks)/", n)]
    assert built[0].stat().st_size < 3 << 20


def test_the_metadata_says_what_the_documentation_says(built):
    archive = zipfile.ZipFile(built[1])
    told = email.message_from_bytes(archive.read(f"thalweg-{thalweg.__version__}.dist-info/METADATA"))
    assert told["Version"] == thalweg.__version__
    assert told["Requires-Python"] == ">=3.11"
    extras = {e for e in told.get_all("Provides-Extra") if e not in ("dev", "docs", "bench")}
    documented = set(re.findall(r"`thalweg\[(\w+)\]`", (ROOT / "docs" / "install.md").read_text()))
    assert extras == documented
    record = (ROOT / "docs" / "spark-versions.json").read_text()
    tried = {f"Programming Language :: Python :: {v}" for v in re.findall(r'"python": "(\d+\.\d+)', record)}
    named = {c for c in told.get_all("Classifier") if re.search(r":: 3\.\d+$", c)}
    assert named == tried


def test_the_version_is_the_same_everywhere():
    cited = re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.M)
    assert cited is not None
    assert cited[1] == thalweg.__version__


FIRST = """
import thalweg as tw
spark = tw.session()
found = tw.where(spark.range(2000), tw.pred(lambda id: id % 7 == 0, name="sevens"), "id > 10", name="first")
assert found.count() == 284
a = tw.stream(spark.sql("SELECT timestamp_seconds(id) AS ts, id % 5 AS k FROM range(50)"), time="ts")
assert tw.sql("SELECT x.k FROM s [RANGE 2 SECONDS] x, s [RANGE 2 SECONDS] y WHERE x.k = y.k", s=a).count() == 50
spark.stop()
"""


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_it_installs_into_an_empty_environment(built, tmp_path):
    """Needs a package index."""
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "env")], check=True)
    python = tmp_path / "env" / "bin" / "python"
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", f"{built[1]}[metrics,connect]"], check=True)
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PYSPARK", "SPARK"))}
    shown = subprocess.run([str(python.parent / "thalweg"), "--version"], env=clean, capture_output=True, text=True)
    assert shown.stdout == f"thalweg {thalweg.__version__}\n"
    (tmp_path / "first.py").write_text(FIRST)
    done = subprocess.run([str(python), "first.py"], cwd=tmp_path, env=clean, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
