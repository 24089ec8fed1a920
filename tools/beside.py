"""Takes files that the pages link to outside docs/ (benchmarks, examples, the map of the source) into the site.

A hook of mkdocs. A reader of the repository follows `../benchmarks/joins/results.md`; on the site that would lead
nowhere, so such files become files of the site under their path in the repository, with whatever they link to, and
links are rewritten to match. A link to nothing stays as it is, and `mkdocs build --strict` refuses it.
"""

from __future__ import annotations

import os.path
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
LINK = re.compile(r"(\]\()([^)#\s:]+)(?=[)#])")


def on_files(files: Any, config: Any, **_: Any) -> Any:
    """mkdocs calls this with the files of docs/."""
    known = {file.src_uri for file in files}
    waiting = [DOCS / name for name in known if name.endswith(".md")]
    while waiting:
        page = waiting.pop()
        for _, target in LINK.findall(page.read_text()):
            found = (page.parent / target).resolve()
            name = place(found)
            if name is None or name in known:
                continue
            known.add(name)
            files.append(File.generated(config, name, abs_src_path=str(found)))
            if name.endswith(".md"):
                waiting.append(found)
    return files


def place(path: Path) -> str | None:
    """Where a file of the repository lies in the site; None if it is no file of the repository."""
    if not path.is_file() or not path.is_relative_to(ROOT):
        return None
    return (path.relative_to(DOCS) if path.is_relative_to(DOCS) else path.relative_to(ROOT)).as_posix()


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """mkdocs calls this for every page."""
    here = page.file.src_uri
    source = Path(page.file.abs_src_path).parent

    def led(link: re.Match[str]) -> str:
        name = place((source / link[2]).resolve())
        return link[0] if name is None else link[1] + os.path.relpath(name, os.path.dirname(here) or ".")

    return LINK.sub(led, markdown)
