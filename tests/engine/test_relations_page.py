"""docs/relations.md: its blocks run in order and print what the page says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "relations.md"


def test_the_page_prints_what_it_says() -> None:
    names: dict[str, object] = {}
    blocks = re.findall(r"```(python|text)\n(.*?)```", PAGE.read_text(), re.S)
    printed = ""
    for kind, block in blocks:
        if kind == "text":
            assert printed == block
            continue
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(block, PAGE.name, "exec"), names)
        printed = out.getvalue()
    assert len(blocks) >= 7
