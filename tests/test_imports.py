"""The engine works without pyspark: nothing in it imports it, read off the files and tried with pyspark blocked."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import thalweg

ROOT = Path(thalweg.__file__).parent
ENGINE = ("language", "plan", "contract", "profile", "optimize", "state", "execute", "engine")
FILES = sorted(f for part in ENGINE for f in (ROOT / part).rglob("*.py"))

BLOCKED = """
import importlib, pkgutil, sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("pyspark", "py4j"):
            raise ImportError("blocked: " + name)
sys.meta_path.insert(0, Blocked())
import thalweg
count = 0
for part in sys.argv[1:]:
    package = importlib.import_module("thalweg." + part)
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)
        count += 1
assert not [m for m in sys.modules if m.split(".")[0] in ("pyspark", "py4j")]
print(count)
"""


def imported(source: str) -> Iterator[str]:
    """Every module that a file imports, at its top or anywhere inside, or by name through importlib."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in ("import_module", "__import__"):
                yield str(node.args[0].value)


def test_the_engine_is_there() -> None:
    for part in ENGINE:
        assert any(part in f.parts for f in FILES), f"{part}/ has no files: the rule would hold for nothing"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_file_of_the_engine_imports_pyspark(path: Path) -> None:
    found = {m.split(".")[0] for m in imported(path.read_text())}
    assert not found & {"pyspark", "py4j"}


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_arrow_points_back(path: Path) -> None:
    found = {".".join(m.split(".")[:2]) for m in imported(path.read_text())}
    assert not found & {"thalweg.spark", "thalweg.lab", "thalweg.testing", "thalweg.cli", "thalweg.api"}


def test_the_engine_imports_with_pyspark_blocked() -> None:
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED, *ENGINE], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= len(FILES) - len(ENGINE), "some modules were not tried"


@pytest.mark.parametrize(
    "source",
    [
        "import pyspark",
        "import pyspark.sql as s",
        "from pyspark.sql import functions",
        "def f():\n    from pyspark import cloudpickle",
        "import importlib\nimportlib.import_module('pyspark.sql')",
        "__import__('pyspark')",
    ],
)
def test_the_rule_can_be_broken(source: str) -> None:
    assert "pyspark" in {m.split(".")[0] for m in imported(source)}
