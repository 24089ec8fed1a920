"""A session that the user made: its workers must run a Python that has Thalweg, or the user is told in one line."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest

import thalweg
from thalweg.app import doctor
from thalweg.spark import workers

PROGRAM = Path(__file__).parent / "programs" / "own_session.py"


def run(master: str, **more: str) -> subprocess.CompletedProcess[str]:
    """The program as started by the environment's Python without activating the environment."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK", "SPARK", "VIRTUAL_ENV"))}
    here = os.path.dirname(sys.executable)
    outside = ":".join(p for p in env["PATH"].split(":") if p != here)
    return subprocess.run(
        [sys.executable, str(PROGRAM), master], env=env | {"PATH": outside, "SPARK_LOCAL_IP": "127.0.0.1"} | more,
        capture_output=True, text=True, timeout=200,
    )  # fmt: skip


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python without packages."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=False, symlinks=True)
    return str(folder / "bin" / "python")


def told(done: subprocess.CompletedProcess[str]) -> str:
    """The error that ends a program, from its name on."""
    assert done.returncode != 0
    return done.stderr[done.stderr.rindex("ThalwegError: ") :]


@pytest.mark.long
def test_a_local_session_outside_the_environment_runs():
    done = run("local[1]")
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines() == ["kept 50", "joined [6, 8]"]


@pytest.mark.long
def test_a_python_that_the_user_named_and_that_lacks_packages_is_told_in_one_line(bare):
    problem, hint = told(run("local[1]", PYSPARK_PYTHON=bare)).strip().splitlines()
    assert re.search(r"the workers' Python \(.*bare.*\) has no (thalweg|pyarrow), needed is", problem)
    assert f"set PYSPARK_PYTHON={sys.executable}" in hint


@pytest.mark.long
def test_over_connect_the_server_is_named(bare):
    pytest.importorskip("grpc")
    problem, hint = told(run("connect", SPARK_REMOTE="local[1]", PYSPARK_PYTHON=bare)).strip().splitlines()
    assert re.search(r"the workers' Python .* has no (thalweg|pyarrow), needed is", problem)
    assert f"pip install thalweg=={thalweg.__version__} where the server's workers run" in hint


def test_what_is_missing_or_different():
    good = {"exe": "/p", "python": "{}.{}".format(*sys.version_info), "thalweg": thalweg.__version__}
    good |= {
        "pyarrow": "26.0.1",
        "pandas": "2.2",
        "numpy": "2.0.0",
        "numba": "0.61",
        "sqlglot": "30",
        "protobuf": "7.1.0rc1",
    }
    assert workers.problem(good) is None
    for change, message in {
        ("python", "3.9"): r"\(/p\) is 3.9, this program's is",
        ("thalweg", ""): "has no thalweg, needed is",
        ("thalweg", "0.0.1"): "has thalweg 0.0.1, this program has",
        ("pyarrow", "17.0.0"): "has 17.0.0 pyarrow, needed is 18 or newer",
        ("protobuf", ""): "has no protobuf, needed is 6.33 or newer",
    }.items():
        assert re.search(message, str(workers.problem(good | dict([change]))))
    assert workers.problem(good | {"protobuf": ""}, joins=False) is None


def test_doctor_asks_the_python_that_workers_would_run(bare, monkeypatch):
    def found() -> doctor.Finding:
        return next(f for f in doctor.findings(start_spark=False) if f.what == "workers' Python")

    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    assert (found().verdict, found().found) == ("good", "this one")
    monkeypatch.setenv("PYSPARK_PYTHON", bare)
    assert found().verdict == "bad"
    assert "has no" in found().found
    monkeypatch.setenv("PYSPARK_PYTHON", "/no/such/python")
    assert "does not run" in found().found
