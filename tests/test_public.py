"""Tests use public names only: no attribute or import with a leading underscore, and no tuning constant.

A constant that is a number and that deciding code compares with is a tuning constant; sizes and positions of arrays,
lists of names and recorded prices are not.
"""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

TESTS = Path(__file__).parent
FILES = sorted(f for f in TESTS.rglob("*.py") if "thirdparty" not in f.parts)
DECIDING = ("thalweg.optimize", "thalweg.profile", "thalweg.engine", "thalweg.state.stem")
OURS = {"self", "cls"}
PROTOCOLS = {"_repr_html_", "_jvm", "_jsparkSession"}
"""What notebooks call, and what pyspark has no public name for."""


def private(source: str) -> Iterator[str]:
    """Private names of others that a test uses."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and re.match("_[a-z]", node.attr) and node.attr not in PROTOCOLS:
            inside = isinstance(node.value, ast.Name) and node.value.id in OURS
            parent = isinstance(node.value, ast.Call) and ast.unparse(node.value) == "super()"
            if not inside and not parent:
                yield ast.unparse(node)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("thalweg"):
            yield from (f"{node.module}.{a.name}" for a in node.names if a.name.startswith("_"))


def tuned(source: str) -> Iterator[str]:
    """Numbers with a name that a test imports from deciding code."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(DECIDING):
            for alias in node.names:
                if alias.name.isupper():
                    value = getattr(importlib.import_module(str(node.module)), alias.name, None)
                    if isinstance(value, int | float):
                        yield f"{node.module}.{alias.name}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(TESTS)))
def test_only_public_names(path: Path) -> None:
    source = path.read_text()
    assert [*private(source), *tuned(source)] == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("policy._search", ["policy._search"]),
        ("make().plan._x = 1", ["make().plan._x"]),
        ("from thalweg.lab.page import _line", ["thalweg.lab.page._line"]),
        ("self._x, cls._y, super()._z, told._repr_html_()", []),
        ("from thalweg.profile.made_up import LIMIT", ["thalweg.profile.made_up.LIMIT"]),
        ("from thalweg.optimize.classes.cbr import CBR", []),
        ("from thalweg.profile.prices import RECORDED", []),
    ],
)
def test_the_rule_can_be_broken(source: str, found: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "thalweg.profile.made_up", SimpleNamespace(LIMIT=3))
    assert [*private(source), *tuned(source)] == found
