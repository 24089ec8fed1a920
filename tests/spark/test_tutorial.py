"""The tutorial's blocks run in order, in one namespace, as a reader would type them."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_the_tutorial_runs(spark):
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / "tutorial.md").read_text(), re.S)
    assert len(blocks) >= 6
    names: dict[str, object] = {"__name__": "__main__"}
    for block in blocks:
        exec(compile(block, "tutorial.md", "exec"), names)


def test_links_between_pages_lead_somewhere():
    pages = [*DOCS.rglob("*.md"), DOCS.parent / "README.md", DOCS.parent / "examples" / "README.md"]
    for page in pages:
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"
