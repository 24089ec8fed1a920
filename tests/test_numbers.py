"""Every named number in deciding and executing code says which kind it is, and the number of such numbers is held.

A number is a size, a statistic, measured, derived from others, or tested: halved and doubled in
`tests/optimize/test_sensitivity.py`, where what the benchmarks ask for still holds. A mark stands for a value that no row
has, and decides nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest
from tests.optimize import test_sensitivity
from tests.test_imports import ROOT

KINDS = ("Size", "Statistic", "Measured", "Derived", "Tested", "Mark")
ROOMS = ("profile", "optimize", "state", "execute", "engine")
TRIED = {name for table in ("FILTERS", "JOINS", "DRIFTING", "CACHES", "CONTENT", "SPANS")
         for _, name in getattr(test_sensitivity, table)}  # fmt: skip


def numbers() -> Iterator[tuple[str, str, str]]:
    """Names assigned plain numbers, or numbers computed from numbers and other names: file, name and what stands below.
    Columns of kernels are `Final`, and left out."""
    for path in sorted(p for room in ROOMS for p in (ROOT / room).rglob("*.py")):
        body = ast.parse(path.read_text()).body
        for node, below in zip(body, [*body[1:], None], strict=True):
            if isinstance(node, ast.Assign) and _is_number(node.value):
                told = below.value if isinstance(below, ast.Expr) else None
                doc = str(told.value) if isinstance(told, ast.Constant) else ""
                yield str(path.relative_to(ROOT)), ast.unparse(node.targets[0]), doc


def _is_number(value: ast.expr) -> bool:
    parts = list(ast.walk(value))
    plain = (ast.Constant, ast.UnaryOp, ast.BinOp, ast.Name, ast.Load, ast.operator, ast.unaryop, ast.Tuple)
    found = [p.value for p in parts if isinstance(p, ast.Constant)]
    return (
        all(isinstance(p, plain) for p in parts)
        and bool(found)
        and all(isinstance(v, int | float) and not isinstance(v, bool) for v in found)
    )


NUMBERS = list(numbers())


def test_numbers_are_found() -> None:
    names = {name for _, name, _ in NUMBERS}
    assert {"SURPRISE", "PAGE", "SCANNED", "RUN"} <= names, "plain, shifted, divided, and made of another"


@pytest.mark.parametrize(("file", "name", "doc"), NUMBERS, ids=[f"{f}:{n}" for f, n, _ in NUMBERS])
def test_a_number_says_what_kind_it_is(file: str, name: str, doc: str) -> None:
    kind = doc.split(":")[0].removesuffix("s")
    assert kind in KINDS, f"{name} in {file}: begin what stands below it with one of {KINDS}"
    if kind == "Tested":
        assert name in TRIED, f"{name} in {file} is not halved and doubled in tests/optimize/test_sensitivity.py"


def test_there_are_few() -> None:
    plain = [n for n in NUMBERS if not n[2].startswith(("Mark", "Derived"))]
    assert len(plain) < 65, "merge numbers of one idea, derive them, or measure them"
