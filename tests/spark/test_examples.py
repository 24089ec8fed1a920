"""Every example runs, in the session of the tests, and says what it should."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SAID = {
    "guarded.py": ("rows", "is_json → cheap"),
    "streaming_filter.py": ("1600 rows", "change seen", "turning.html"),
    "streaming_join.py": ("pairs", "RANGE 20 s"),
    "pinned.py": ("as pinned: most → few", "thawed: few → most", "thaw"),
    "engine.py": ("results", "rows in 500"),
}


@pytest.mark.parametrize("name", sorted(p.name for p in EXAMPLES.glob("*.py")))
def test_an_example_runs(name, spark, capsys):
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    printed = capsys.readouterr().out
    assert not printed.startswith("0 ")
    for words in SAID[name]:
        assert words in printed, printed
