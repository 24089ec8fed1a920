"""The blocks of the documentation run as a reader would type them: the tutorial, the how-to pages, the notebook."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SERVED = ("kafka.md", "delta.md", "iceberg.md", "postgres.md")
"""Pages that speak to a service: tests beside that service run them."""
HOW_TO = sorted(
    p.name for p in (DOCS / "howto").glob("*.md") if "```python\n" in p.read_text() and p.name not in SERVED
)


def run_blocks(page):
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.S)
    names: dict[str, object] = {"__name__": "__main__"}
    for block in blocks:
        exec(compile(block, page.name, "exec"), names)
    return len(blocks)


def test_the_tutorial_runs(spark):
    assert run_blocks(DOCS / "tutorial.md") >= 6


@pytest.mark.long
@pytest.mark.parametrize("page", ["filters.md", "joins.md", "engine.md", "reference.md"])
def test_core_pages_run(spark, page):
    assert run_blocks(DOCS / page) >= 2


@pytest.mark.long
@pytest.mark.parametrize("page", HOW_TO)
def test_how_to_pages_run(spark, page):
    assert run_blocks(DOCS / "howto" / page)


def test_the_notebook_is_the_tutorial():
    spec = importlib.util.spec_from_file_location("notebook", ROOT / "tools" / "notebook.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    assert made.TARGET.read_text() == made.text(), "run: python tools/notebook.py"


@pytest.mark.long
@pytest.mark.timeout(900)  # a session of its own, on a machine that may be busy
def test_the_notebook_runs(tmp_path):
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(ROOT / "examples" / "tutorial.ipynb", as_version=4)
    nbformat.validate(notebook)
    done = NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    printed = "".join(o.get("text", "") for c in done.cells for o in c.get("outputs", []))
    assert "predicate calls where Spark makes" in printed


def test_links_between_pages_lead_somewhere():
    pages = [*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "examples" / "README.md"]
    for page in pages:
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_every_page_is_in_the_navigation():
    nav = (ROOT / "mkdocs.yml").read_text()
    for page in DOCS.rglob("*.md"):
        assert str(page.relative_to(DOCS)) in nav, page
