"""Runs the blocks of a how-to page as a reader would type them."""

from __future__ import annotations

import re
from pathlib import Path

HOW_TO = Path(__file__).parents[2] / "docs" / "howto"


def run(name: str, replaced: dict[str, str] | None = None, **names: object) -> int:
    """Run a page with some of its words replaced and some names defined; how many blocks there were."""
    text = (HOW_TO / name).read_text()
    for old, new in (replaced or {}).items():
        assert old in text
        text = text.replace(old, new)
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    held = {"__name__": "__main__", **names}
    for block in blocks:
        exec(compile(block, name, "exec"), held)
    return len(blocks)
