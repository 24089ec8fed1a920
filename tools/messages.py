"""Every error text in the source, for the page on troubleshooting: a hook of mkdocs that puts the list where it belongs.

    python tools/messages.py          prints the list

The list is read from the source each time the site is built, so it is never behind. What stands in an f-string's braces
is shown as …, as a reader who searches for an error will want it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parent.parent / "src" / "thalweg"
MARK = "<!-- messages: tools/messages.py puts every error text here -->"
LEFT_OUT = ("lab", "testing", "demo")
"""For researchers and authors of policies; users of queries never meet them."""


@dataclass(frozen=True)
class Message:
    """One text that a user can meet."""

    kind: str
    """The error's class."""
    text: str
    hint: str
    where: str


@cache
def messages() -> list[Message]:
    """All of them, once each, in the order of their texts."""
    found = {m.text: m for path in sorted(SOURCE.rglob("*.py")) for m in _in(path)}
    return sorted(found.values(), key=lambda m: re.sub(r"\W", "", m.text).lower())


def _in(path: Path) -> Iterator[Message]:
    where = str(path.relative_to(SOURCE))
    if where.split("/")[0] in LEFT_OUT:
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        family = name.endswith("Error") and name[:-5] in FAMILY
        place = 1 if name in ("error", "_fail") and isinstance(node.func, ast.Attribute) else 0 if family else None
        if place is None:
            continue
        texts = [t for a in node.args[: place + 1] if (t := _text(a))]
        if not texts:
            continue
        hints = [_text(k.value) for k in node.keywords if k.arg == "hint"] + [
            _text(a) for a in node.args[place + 1 : place + 2]
        ]
        yield Message(name if family else "QueryError", texts[-1], next((h for h in hints if h), ""), where)


FAMILY = ("Thalweg", "Definition", "Query", "Predicate", "Checkpoint", "Connector", "App")


def _text(node: ast.expr | None) -> str:
    """The text of a literal; what is filled in is shown as …."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(p.value) if isinstance(p, ast.Constant) else "…" for p in node.values)
    if isinstance(node, ast.BinOp):
        return _text(node.left) + _text(node.right)
    if isinstance(node, ast.IfExp):
        return _text(node.body) or _text(node.orelse)
    return ""


def table() -> str:
    lines = ["| error | what it says | what to do |", "|---|---|---|"]
    for m in messages():
        cells = [re.sub(r"\s+", " ", c).replace("|", "\\|").replace("<", "&lt;") for c in (m.kind, m.text, m.hint)]
        lines.append(f"| `{cells[0]}` | {cells[1]} | {cells[2]} |")
    return "\n".join(lines)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """mkdocs calls this for every page."""
    return markdown.replace(MARK, table()) if MARK in markdown else markdown


if __name__ == "__main__":
    print(table())
