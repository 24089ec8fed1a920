"""Every error text can be found on the page about troubleshooting, and what that page quotes is in the source."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text()


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("messages", ROOT / "tools" / "messages.py")
    made = importlib.util.module_from_spec(spec)
    sys.modules["messages"] = made
    spec.loader.exec_module(made)
    return made


def test_the_site_lists_every_message(tool):
    shown = tool.on_page_markdown(PAGE)
    assert tool.MARK not in shown
    assert len(tool.messages()) > 200
    for message in tool.messages():
        words = re.sub(r"\s+", " ", message.text).replace("|", "\\|").replace("<", "&lt;")
        assert words in shown


@pytest.mark.parametrize(
    "text", ["no policy '…'", "no stream or table '…'", "… needs Spark 4.1 or newer", "no function '…'"]
)
def test_known_messages_are_found(tool, text):
    assert any(text in m.text for m in tool.messages())


def test_quoted_errors_are_in_the_source(tool):
    texts = " ".join(path.read_text() for path in tool.SOURCE.rglob("*.py"))
    plain = re.sub(r"\{[^{}]*\}", "…", re.sub(r'"\s*\n?\s*f?"', "", texts))
    for quoted in re.findall(r'^\*\*"([^"]+)"', PAGE, re.M):
        longest = max(re.split("…", quoted), key=len).strip(" '()")
        assert longest in plain, quoted
