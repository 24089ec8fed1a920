"""What `import thalweg` shows: every public name, documented, typed and nothing else."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import get_type_hints

import pytest
from typer.testing import CliRunner

import thalweg as tw
from thalweg.cli import app

ROOT = Path(__file__).parents[1]


def test_completion_shows_the_public_names_and_nothing_else():
    assert set(dir(tw)) == {*tw.__all__, "__version__"}
    assert tw.__all__ == sorted(tw.__all__)
    for name in tw.__all__:
        assert getattr(tw, name) is getattr(tw, name)


@pytest.mark.parametrize("name", tw.__all__)
def test_the_reference_shows_every_public_name_and_an_example(name):
    page = (ROOT / "docs" / "reference.md").read_text()
    examples = "\n".join(re.findall(r"```python\n(.*?)```", page, re.S))
    assert re.search(rf"\btw\.{name}\b", examples)
    shown = re.findall(r"^::: (\S+)", page, re.M) + re.findall(r"members: \[(.*)\]", page)
    assert name in re.findall(r"\w+", " ".join(shown))


@pytest.mark.parametrize("name", tw.__all__)
def test_every_public_name_says_what_it_is(name):
    assert len(inspect.getdoc(getattr(tw, name)) or "") > 20


def test_handles_have_a_type():
    assert get_type_hints(tw.query)["return"] is tw.QueryHandle
    assert get_type_hints(tw.pred)["return"] is tw.Predicate


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'thalweg' has no attribute 'wehre'"):
        _ = tw.wehre


def test_importing_needs_no_spark():
    code = "import sys, thalweg; thalweg.Engine, thalweg.Source; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_the_version_comes_from_one_place():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version"]
    assert CliRunner().invoke(app, ["--version"]).output == f"thalweg {tw.__version__}\n"
