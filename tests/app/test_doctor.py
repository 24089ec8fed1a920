"""`thalweg doctor` without Spark: all that an installation needs is looked at, and what is bad
comes with what to do and an exit code."""

from __future__ import annotations

import importlib.metadata

import pytest
from typer.testing import CliRunner

from thalweg.app import doctor
from thalweg.cli import app as command


def found():
    return {f.what: f for f in doctor.findings(start_spark=False)}


def test_this_machine_is_ready():
    done = CliRunner().invoke(command, ["doctor", "--no-spark"], env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.stdout
    for what in ("Python", "Java", "pyspark", "protobuf", "numba cache", "cores", "memory", "scratch disk", "ready"):
        assert what in done.stdout


def test_no_java_is_told_with_what_to_install(monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    assert found()["Java"].verdict == "bad"
    done = CliRunner().invoke(command, ["doctor", "--no-spark"], env={"COLUMNS": "200"})
    assert done.exit_code == 1
    assert "install a JRE 17 or newer" in done.stdout
    assert "something is missing" in done.stdout


@pytest.mark.parametrize(("package", "version"), [("protobuf", "5.29.1"), ("pandas", "4.0.0"), ("pyspark", "3.5.9")])
def test_a_package_that_does_not_fit_is_told_with_its_range(monkeypatch, package, version):
    real = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: version if name == package else real(name))
    told = found()[package]
    assert (told.verdict, told.found) == ("bad", version)
    assert told.remedy.startswith(f"pip install '{package}>=")


def test_a_cache_that_cant_be_written_is_poor_not_bad(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file" / "cache"))
    told = found()["numba cache"]
    assert told.verdict == "poor"
    assert "NUMBA_CACHE_DIR" in told.remedy
