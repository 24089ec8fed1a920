"""`thalweg doctor`: checks what this machine has, and says what to do if something is missing."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.table import Table

Verdict = Literal["good", "poor", "bad"]
MEMORY = 2 << 30
"""Bytes below which Spark and two workers get in each other's way."""
NEEDS = {"pyspark": (4, 0), "protobuf": (6, 33), "pyarrow": (18,), "pandas": (2, 2), "numpy": (2, 0), "numba": (0, 61)}
BELOW = {"pyspark": (4, 4), "pandas": (4,)}


@dataclass(frozen=True)
class Finding:
    """The outcome of one check."""

    what: str
    found: str
    verdict: Verdict
    remedy: str = ""


def findings(start_spark: bool = True) -> Iterator[Finding]:
    """Run all checks, cheapest first."""
    yield _python()
    yield _java()
    for package in NEEDS:
        yield _package(package)
    yield from _workers()
    yield _kernels()
    yield _cores()
    yield _memory()
    yield _scratch()
    if start_spark:
        yield _spark()


def doctor(console: Console, start_spark: bool = True) -> int:
    """The command: 0 when nothing is bad."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for header in ("", "what", "found", "what to do"):
        table.add_column(header, overflow="fold")
    bad = False
    with console.status("looking"):
        for f in findings(start_spark):
            bad |= f.verdict == "bad"
            mark = {"good": "[green]✓[/green]", "poor": "[yellow]![/yellow]", "bad": "[red]✗[/red]"}[f.verdict]
            table.add_row(mark, f.what, f.found, f.remedy)
    console.print(table)
    console.print("[red]something is missing[/red]" if bad else "[green]ready[/green]")
    return 1 if bad else 0


def _python() -> Finding:
    found = sys.version.split()[0]
    return (
        Finding("Python", found, "good")
        if sys.version_info >= (3, 11)
        else Finding("Python", found, "bad", "Python 3.11 or newer")
    )


def _java() -> Finding:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if not java or not Path(java).exists():
        return Finding(
            "Java",
            "none",
            "bad",
            "install a JRE 17 or newer (Debian: apt install default-jre-headless), or set JAVA_HOME",
        )
    told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60).stderr
    version = re.search(r'version "(\d+)[^"]*"', told)
    if version is None:
        return Finding("Java", told.strip().splitlines()[0] if told.strip() else "silent", "poor", "is this a Java?")
    if int(version[1]) < 17:
        return Finding("Java", version[0], "bad", "Spark 4 needs 17 or newer; set JAVA_HOME to one")
    return Finding("Java", version[0].removeprefix("version ").strip('"'), "good")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", version)[:3])


def _package(name: str) -> Finding:
    wanted = f"{name}>={'.'.join(map(str, NEEDS[name]))}"
    if name in BELOW:
        wanted += f",<{'.'.join(map(str, BELOW[name]))}"
    try:
        found = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return Finding(name, "none", "bad", f"pip install '{wanted}'")
    fits = _numbers(found) >= NEEDS[name] and (name not in BELOW or _numbers(found) < BELOW[name])
    return Finding(name, found, "good") if fits else Finding(name, found, "bad", f"pip install '{wanted}'")


def _workers() -> Iterator[Finding]:
    """The Python that Spark's workers will run, if it is not this one."""
    try:
        from thalweg.spark import workers
    except ImportError:
        return  # pyspark or a package that it needs is missing, which is said already
    named, command = workers.elsewhere()
    if not named:
        yield Finding("workers' Python", "this one", "good")
        return
    remedy = f"unset PYSPARK_PYTHON, or set it to {sys.executable}"
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        yield Finding("workers' Python", f"PYSPARK_PYTHON={named} does not run", "bad", remedy)
        return
    found = workers.problem(json.loads(told))
    yield Finding(
        "workers' Python", found or f"PYSPARK_PYTHON={named}", "bad" if found else "good", remedy if found else ""
    )


def _kernels() -> Finding:
    """Whether compiled kernels can be cached; without a cache, each worker compiles them itself."""
    from thalweg.execute.kernels import join

    folder = Path(os.environ.get("NUMBA_CACHE_DIR") or Path(join.__file__).parent / "__pycache__")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        return Finding("numba cache", f"not writable: {error.strerror}", "poor",
                       "set NUMBA_CACHE_DIR to a folder that workers can write to; otherwise each compiles")  # fmt: skip
    kept = len(list(folder.glob("*.nbc")))
    return Finding(
        "numba cache", f"{kept} kernels cached" if kept else "empty: the first use compiles for half a minute", "good"
    )


def _cores() -> Finding:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    verdict: Verdict = "good" if count > 1 else "poor"
    return Finding("cores", str(count), verdict, "" if count > 1 else "one core: Spark and its workers take turns")


def _memory() -> Finding:
    try:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return Finding("memory", "unknown", "good")
    found = f"{whole / 2**30:.1f} GiB, {free / 2**30:.1f} free"
    return (
        Finding("memory", found, "good")
        if whole >= MEMORY
        else Finding("memory", found, "poor", "2 GiB or more; lower spark.driver.memory")
    )


def _scratch() -> Finding:
    folder = Path(os.environ.get("SPARK_LOCAL_DIRS", tempfile.gettempdir()).split(",")[0])
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        return Finding("scratch disk", f"{folder} does not exist", "bad", "create it, or set SPARK_LOCAL_DIRS")
    found = f"{free / 2**30:.1f} GiB free"
    return (
        Finding("scratch disk", found, "good")
        if free > 1 << 30
        else Finding("scratch disk", found, "poor", "free some")
    )


def _spark() -> Finding:
    """Start a session, send rows through a worker, check the answer."""
    from thalweg import api
    from thalweg.errors import ThalwegError

    try:
        spark = api.session("thalweg-doctor")
        kept = api.where(spark.range(100), lambda id: id % 2 == 0, name="doctor").count()
        version = spark.version
        spark.stop()
    except ThalwegError as error:
        return Finding("Spark", error.message, "bad", error.hint or "")
    except Exception as error:
        return Finding(
            "Spark",
            str(error).strip().splitlines()[0][:200],
            "bad",
            "see the lines above; is another Spark on the path?",
        )
    return (
        Finding("Spark", f"{version}: a query ran", "good")
        if kept == 50
        else Finding("Spark", f"expected 50 rows, got {kept}", "bad", "please report this")
    )
