"""Writes examples/tutorial.ipynb from docs/tutorial.md: text stays text, Python blocks become cells.

A test compares the two, so the notebook never lags behind.

    python tools/notebook.py
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SOURCE, TARGET = ROOT / "docs" / "tutorial.md", ROOT / "examples" / "tutorial.ipynb"
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


def notebook(page: str) -> dict[str, Any]:
    """The page as a notebook without outputs. Links are rewritten to lead from examples/ to docs/."""
    cells: list[dict[str, Any]] = []
    for k, part in enumerate(BLOCK.split(page)):
        text = part.strip("\n")
        if not text:
            continue
        cell: dict[str, Any] = {"cell_type": "code" if k % 2 else "markdown", "id": f"cell-{k}", "metadata": {}}
        if k % 2:
            cell |= {"execution_count": None, "outputs": []}
        else:
            text = re.sub(r"\]\(([\w/-]+\.md)", r"](../docs/\1", text)
        cells.append(cell | {"source": text.splitlines(keepends=True)})
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return {"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}


def text() -> str:
    return json.dumps(notebook(SOURCE.read_text(encoding="utf-8")), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    TARGET.write_text(text(), encoding="utf-8")
    print(f"wrote {TARGET.relative_to(ROOT)}")
