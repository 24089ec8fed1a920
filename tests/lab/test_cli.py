"""The command, end to end: files are written, and page, JSON and pictures tell the same numbers."""

from __future__ import annotations

import json
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from thalweg.cli import app

runner = CliRunner()
PNG = b"\x89PNG\r\n"


class Tables(HTMLParser):
    """All tables of a page as lists of rows of cell texts, and what the page would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []
        self.fetched: list[str] = []
        self._cell = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
            self._cell = True
        for name, value in attrs:
            if (name in ("src", "srcset") or (name == "href" and tag == "link")) and value:
                self.fetched.append(value)

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._cell = False

    def handle_data(self, data: str) -> None:
        if self._cell:
            self.tables[-1][-1][-1] += data


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("lab")
    result = runner.invoke(app, ["lab", "run", "4.12", "--quick", "--seed", "3", "--jobs", "1", "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert "agrees" in result.output
    assert "index.html" in result.output
    return out


def test_files_are_written(folder: Path) -> None:
    assert {p.name for p in folder.iterdir()} == {
        "index.html", "raw.json", "summary.json", "claims.md", "4.12-rate.png",
    }  # fmt: skip
    assert (folder / "4.12-rate.png").read_bytes().startswith(PNG)


def test_summary_is_the_mean_of_the_raw_rows(folder: Path) -> None:
    raw = json.loads((folder / "raw.json").read_text())["experiments"]["4.12"]
    (panel,) = json.loads((folder / "summary.json").read_text())["experiments"][0]["panels"]
    points = 0
    for curve in panel["curves"]:
        for x, mean in zip(curve["x"], curve["mean"], strict=True):
            rows = [r["rate"] for r in raw if r["policy"] == curve["series"] and r["selectivity"] == x]
            assert len(rows) == 3
            assert mean == pytest.approx(np.mean(rows), rel=1e-4)
            points += 1
    assert points == 5 * 3


def test_page_and_json_agree_in_every_number(folder: Path) -> None:
    summary = json.loads((folder / "summary.json").read_text())
    html = (folder / "index.html").read_text()
    parsed = Tables()
    parsed.feed(html)
    (experiment,) = summary["experiments"]
    claims, numbers = parsed.tables
    shown = [(row[0].removesuffix(" ours"), row[1][2:], row[2]) for row in claims[1:]]
    assert shown == [(c["says"], c["verdict"], c["numbers"]) for c in experiment["claims"]]
    (panel,) = experiment["panels"]
    assert numbers[0][1:] == [c["series"] for c in panel["curves"]]
    compared = 0
    for row in numbers[1:]:
        for cell, curve in zip(row[1:], panel["curves"], strict=True):
            at = curve["x"].index(float(row[0]))
            mean, low, high = cell.replace("[", "").replace("]", "").replace(",", "").split()
            assert [float(mean), float(low), float(high)] == pytest.approx(
                [curve["mean"][at], curve["low"][at], curve["high"][at]], rel=1e-4
            )
            compared += 1
    assert compared == 15
    for count in summary["claims"].values():
        assert f">{count}</b>" in html


def test_page_needs_nothing_from_outside_and_is_light_and_dark(folder: Path) -> None:
    html = (folder / "index.html").read_text()
    parsed = Tables()
    parsed.feed(html)
    assert parsed.fetched == []
    assert "<script" not in html
    assert "prefers-color-scheme: dark" in html
    assert 'name="viewport"' in html
    assert "<svg" in html
    assert "#0969da" not in html.split("</style>")[1]  # every colour of a figure is a variable
    assert str(folder) not in html


def test_claims_table_has_a_row_for_each_claim(folder: Path) -> None:
    lines = (folder / "claims.md").read_text().splitlines()
    assert len(lines) == 2 + len(json.loads((folder / "summary.json").read_text())["experiments"][0]["claims"])


def test_same_seed_same_files(folder: Path, tmp_path: Path) -> None:
    runner.invoke(app, ["lab", "run", "4.12", "--quick", "--seed", "3", "--jobs", "2", "--out", str(tmp_path)])
    for name in ("raw.json", "summary.json", "claims.md"):
        assert (tmp_path / name).read_text() == (folder / name).read_text()


def test_list_names_every_experiment() -> None:
    result = runner.invoke(app, ["lab", "list"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    for name in ("generator", "4.11", "4.13-4.14", "table-4.2", "4.19-4.21", "worst-cases"):
        assert name in result.output


def test_unknown_name_says_what_is_meant() -> None:
    result = runner.invoke(app, ["lab", "run", "worstcases"])
    assert result.exit_code == 2
    assert "did you mean 'worst-cases'" in result.output


def test_without_matplotlib_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = runner.invoke(app, ["lab", "run", "4.12", "--quick", "--out", str(tmp_path)], env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert "pip install 'thalweg[lab]'" in result.output
    assert not list(tmp_path.iterdir())


@pytest.mark.long
def test_whole_chapter_quick(tmp_path: Path) -> None:
    result = runner.invoke(app, ["lab", "run", "chapter4", "--quick", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert len(summary["experiments"]) == 11
    verdicts = {(e["name"], c["says"]): c["verdict"] for e in summary["experiments"] for c in e["claims"]}
    assert all(verdicts[k] == "agrees" for k in verdicts if k[0] == "generator")
    assert len(list(tmp_path.glob("*.png"))) == sum(len(e["panels"]) for e in summary["experiments"])
