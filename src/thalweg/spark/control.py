"""Control files: the small channel from the driver to running workers.

One JSON file for each named query: the frozen route, if any, and what cells learned lately, so that new workers do not
start from nothing. Workers look once per task. Reading an old or no file only changes cost, never results. The folder
must be visible to driver and workers to matter: set `spark.thalweg.control` to a shared one on a cluster of several
machines.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any

CONF = "spark.thalweg.control"


def default_folder() -> str:
    folder = Path(tempfile.gettempdir()) / f"thalweg-{getpass.getuser()}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return str(folder)


class Control:
    """One query's control file."""

    def __init__(self, folder: str, key: str) -> None:
        readable = re.sub(r"[^A-Za-z0-9._-]+", "_", key)[:80]
        self.path = Path(folder) / f"{readable}-{hashlib.blake2b(key.encode(), digest_size=6).hexdigest()}.json"
        self._seen: tuple[int, dict[str, Any]] = (0, {})

    def read(self) -> dict[str, Any]:
        """The present orders; empty where there is no readable file."""
        try:
            stamp = self.path.stat().st_mtime_ns
            if stamp != self._seen[0]:
                self._seen = (stamp, json.loads(self.path.read_text()))
            return self._seen[1]
        except (OSError, ValueError):
            return {}

    def write(self, **orders: Any) -> None:
        """Change some of the orders. The file is replaced at once, so a reader sees the old or the new one."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self.read() | orders)
        handle, temporary = tempfile.mkstemp(dir=self.path.parent, prefix=self.path.stem)
        with os.fdopen(handle, "w") as file:
            file.write(text)
        os.replace(temporary, self.path)
        self._seen = (0, {})

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
