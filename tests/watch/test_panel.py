"""The live panel: every predicate keeps its numbers, also where rows take several routes."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console
from tests.watch import reported

from thalweg.watch.panel import panel


@pytest.mark.parametrize("view", [reported.streaming, reported.classes], ids=["one class", "classes"])
def test_numbers_stay_readable_with_several_routes(view) -> None:
    shown = view()
    screen = Console(file=StringIO(), width=100, color_system=None)
    screen.print(panel(shown, "running"))
    text = screen.file.getvalue()
    (path,) = [i.filters for i in shown.inputs]
    for name in reported.NAMES:
        line = next(words for words in text.splitlines() if f". {name}" in words)
        assert f"{path.operator(name).calls:,}" in line
        assert "…" not in line
    for route in path.routes:
        assert any(f"{route.share:.0%} of rows" in words and str(route) in words for words in text.splitlines())
