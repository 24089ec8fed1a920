"""The order of the house: a folder imports only from the folders above it, and pyspark is used only from spark/ down.

The order is read from the files, function bodies included. That the engine runs without pyspark is also tried, with
pyspark blocked.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import thalweg

ROOT = Path(thalweg.__file__).parent
HOUSE = (
    "errors", "language", "plan", "contract", "profile", "optimize", "state", "execute", "relate", "engine", "spark",
    "watch", "testing", "lab", "api", "app", "demo", "cli",
)  # fmt: skip
"""Every room. The doors `api` and `cli` stand where the last of what they open is above them; `thalweg` itself is a
door as well, which imports lazily and is left out."""
ABOVE_SPARK = HOUSE[: HOUSE.index("spark")]
FILES = sorted(f for f in ROOT.rglob("*.py") if f != ROOT / "__init__.py")

BLOCKED = """
import importlib, pkgutil, sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("pyspark", "py4j"):
            raise ImportError("blocked: " + name)
sys.meta_path.insert(0, Blocked())
import thalweg
count = 0
for room in sys.argv[1:]:
    package = importlib.import_module("thalweg." + room)
    count += 1
    for module in pkgutil.walk_packages(getattr(package, "__path__", []), package.__name__ + "."):
        importlib.import_module(module.name)
        count += 1
assert not [m for m in sys.modules if m.split(".")[0] in ("pyspark", "py4j")]
print(count)
"""


def room_of(path: Path) -> str:
    """The first folder of a file, or its own name where it is in none."""
    return path.relative_to(ROOT).with_suffix("").parts[0]


def imported(source: str, package: str = "thalweg", *, typing: bool = True) -> Iterator[str]:
    """Every name that a file imports, anywhere in it or through importlib; `typing` includes what only type checkers
    read. `package` is where the file is, for relative imports."""
    tree = ast.parse(source)
    unread: set[int] = set()
    if not typing:
        guards = [n for n in ast.walk(tree) if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.unparse(n.test)]
        unread = {id(n) for guard in guards for statement in guard.body for n in ast.walk(statement)}
    for node in ast.walk(tree):
        if id(node) in unread:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package.rsplit(".", node.level - 1)[0] if node.level else ""
            module = ".".join(filter(None, (base, node.module)))
            yield from (f"{module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in ("import_module", "__import__"):
                yield str(node.args[0].value)


def against_the_order(room: str, source: str, package: str) -> set[str]:
    """Rooms below its own that a file imports from. What `thalweg` itself offers comes through the door `api`."""
    place = HOUSE.index(room)
    names = [name.split(".") for name in imported(source, package, typing=False)]
    inside = {(parts[1:] or ["api"])[0] for parts in names if parts[0] == "thalweg"} - {"__version__"}
    rooms = {name if name in HOUSE else "api" for name in inside}
    return {other for other in rooms if HOUSE.index(other) > place}


def package_of(path: Path) -> str:
    return ".".join(["thalweg", *path.parent.relative_to(ROOT).parts])


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_every_file_is_in_a_room_that_has_a_place() -> None:
    rooms = {room_of(f) for f in FILES}
    assert rooms <= set(HOUSE)
    assert len(rooms) > len(HOUSE) - 3, "the rule would hold for nothing"


@pytest.mark.parametrize("path", FILES, ids=named)
def test_a_room_imports_only_from_rooms_above_it(path: Path) -> None:
    assert not against_the_order(room_of(path), path.read_text(), package_of(path))


@pytest.mark.parametrize("path", [f for f in FILES if room_of(f) in ABOVE_SPARK], ids=named)
def test_no_room_above_spark_imports_pyspark(path: Path) -> None:
    found = {m.split(".")[0] for m in imported(path.read_text(), package_of(path))}
    assert not found & {"pyspark", "py4j"}


def test_the_rooms_above_spark_import_with_pyspark_blocked() -> None:
    rooms = sorted({room_of(f) for f in FILES} & set(ABOVE_SPARK))
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED, *rooms], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= sum(room_of(f) in rooms for f in FILES), "some modules were not tried"


@pytest.mark.parametrize(
    "source",
    [
        "import pyspark",
        "import pyspark.sql as s",
        "from pyspark.sql import functions",
        "def f():\n    from pyspark import cloudpickle",
        "import importlib\nimportlib.import_module('pyspark.sql')",
        "__import__('pyspark')",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import pyspark",
    ],
)
def test_the_rule_about_pyspark_can_be_broken(source: str) -> None:
    assert "pyspark" in {m.split(".")[0] for m in imported(source)}


@pytest.mark.parametrize(
    ("room", "source", "found"),
    [
        ("plan", "from thalweg.contract.policy import Policy", {"contract"}),
        ("plan", "import thalweg.contract.policy", {"contract"}),
        ("plan", "from thalweg import engine", {"engine"}),
        ("plan", "from ..contract import policy", {"contract"}),
        ("plan", "from .. import watch", {"watch"}),
        ("plan", "from .route import Route", set()),
        ("state", "def f():\n    from thalweg.execute.fabric import run", {"execute"}),
        ("engine", "import importlib\nimportlib.import_module('thalweg.spark.cell')", {"spark"}),
        ("lab", "from thalweg import api", {"api"}),
        ("lab", "import thalweg as tw", {"api"}),
        ("watch", "from thalweg import Engine", {"api"}),
        ("watch", "from thalweg import __version__", set()),
        ("app", "from thalweg import api", set()),
        ("spark", "from thalweg.errors import ThalwegError\nfrom thalweg.engine import Engine", set()),
        ("plan", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from thalweg.engine import Engine", set()),
        (
            "plan",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    pass\nelse:\n    from thalweg.engine import x",
            {"engine"},
        ),
    ],
)
def test_the_rule_about_the_order_can_be_broken(room: str, source: str, found: set[str]) -> None:
    assert against_the_order(room, source, f"thalweg.{room}") == found


def test_the_map_names_every_folder_and_only_files_that_exist() -> None:
    text = (ROOT / "README.md").read_text()
    for folder in sorted(p.name for p in ROOT.iterdir() if (p / "__init__.py").exists()):
        assert f"| `{folder}/` |" in text, f"the map does not show {folder}/"
    for path in re.findall(r"`([a-z_]+/[a-z_/]+\.py)`", text):
        assert (ROOT / path).exists(), f"the map leads to {path}, which is not there"
    for folder, files in re.findall(r"\| `([a-z]+/)` \| (.*) \|", text):
        for name in re.findall(r"`([a-z_]+\.py)`", files):
            assert (ROOT / folder / name).exists(), f"the map puts {name} into {folder}"
