"""The documentation as a site: it builds without a warning, and no link in it leads nowhere."""

from __future__ import annotations

import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parents[1]


class Page(HTMLParser):
    """What a page links to and what in it can be linked to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        self.links += [v for k in ("href", "src") if (v := told.get(k))]
        self.places |= {v for k in ("id", "name") if (v := told.get(k))}


def dead(site: Path) -> set[tuple[str, str]]:
    """Links within the site that lead nowhere, with the page that holds them."""
    pages = {path.resolve(): Page(path.read_text()) for path in site.rglob("*.html")}
    found = set()
    for path, page in pages.items():
        for link in page.links:
            target, _, place = unquote(link).partition("#")
            if ":" in target or target.startswith("//"):
                continue
            base = site if target.startswith("/") else path.parent
            there = (base / target.lstrip("/")).resolve() if target else path
            there = there / "index.html" if there.is_dir() else there
            if not there.exists() or (place and there in pages and place not in pages[there].places):
                found.add((path.name, link))
    return found


def test_a_dead_link_is_noticed(tmp_path):
    (tmp_path / "a.html").write_text('<a href="b.html#here">b</a><a href="b.html#there">b</a><img src="c.png">')
    (tmp_path / "b.html").write_text('<h1 id="here">b</h1><a href="https://example.org/d">d</a>')
    assert dead(tmp_path) == {("a.html", "b.html#there"), ("a.html", "c.png")}


@pytest.mark.long
def test_the_site_builds_and_no_link_is_dead(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    env = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert dead(tmp_path / "site") == set()
