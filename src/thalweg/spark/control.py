"""The small channel from the driver to running workers: two files for each named query.

`orders` holds the user's pins, and only `freeze` and `thaw` write it; `learned` holds what some task learned, and only
the board writes it. So no writer has to read first, and none can undo the other's work. Files are replaced atomically.
Workers read them once per task. A missing, old or malformed file changes cost, never results. On a cluster of
several machines set `spark.thalweg.control` to a folder that all of them see.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

CONF = "spark.thalweg.control"
Routes = Mapping[str, tuple[str, ...]]
"""Orders of operators, by input."""


@cache
def default_folder() -> str:
    """A folder in the temporary directory that only this user can write to.

    Another user may have taken the name; then a folder with a random name serves this process.
    """
    folder = Path(tempfile.gettempdir()) / f"thalweg-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
            return tempfile.mkdtemp(prefix="thalweg-")
    return str(folder)


@dataclass(frozen=True)
class Orders:
    """The user's pins.

    >>> Orders.of({"frozen": True, "routes": {"a": ["c", "b"]}}).routes
    {'a': ('c', 'b')}
    """

    frozen: bool = False
    """Inputs not in `routes` keep each worker's current routes, for every class."""
    routes: Routes = field(default_factory=dict)
    """Orders of operators in cells; under the empty alias, of the predicates of `tw.where`."""
    filters: Routes = field(default_factory=dict)
    """Orders of the predicates that run while an input is packed."""

    @classmethod
    def of(cls, record: Any) -> Orders:
        if not isinstance(record, dict) or not isinstance(record.get("frozen", False), bool):
            raise ValueError("expected an object whose 'frozen' is true or false")
        return cls(record.get("frozen", False), _routes(record, "routes"), _routes(record, "filters"))


def _routes(record: Mapping[str, Any], key: str) -> Routes:
    given = record.get(key, {})
    if not isinstance(given, dict) or not all(
        isinstance(names, list) and all(isinstance(n, str) for n in names) for names in given.values()
    ):
        raise ValueError(f"'{key}' must map inputs to lists of operator names")
    return {alias: tuple(names) for alias, names in given.items()}


class Control:
    """The two files of one query."""

    def __init__(self, folder: str, key: str) -> None:
        readable = re.sub(r"[^A-Za-z0-9._-]+", "_", key)[:80]
        stem = f"{readable}-{hashlib.blake2b(key.encode(), digest_size=6).hexdigest()}"
        self.orders_path = Path(folder) / f"{stem}.orders.json"
        self.learned_path = Path(folder) / f"{stem}.learned.json"

    def orders(self) -> tuple[Orders, str]:
        """The current orders, and the problem with their file, if any: then there are none."""
        try:
            return Orders.of(json.loads(self.orders_path.read_text())), ""
        except OSError:
            return Orders(), ""
        except ValueError as error:
            return Orders(), f"{self.orders_path} is ignored: {error}"

    def order(self, orders: Orders) -> None:
        """Replace all orders."""
        _replace(self.orders_path, asdict(orders))

    def learned(self, name: str) -> dict[str, Any] | None:
        """What tasks learned about an input; None without a readable file."""
        try:
            found = json.loads(self.learned_path.read_text())
        except (OSError, ValueError):
            return None
        record = found.get(name) if isinstance(found, dict) else None
        return record if isinstance(record, dict) else None

    def learn(self, records: Mapping[str, Mapping[str, Any]]) -> None:
        """Replace what was learned, by input."""
        _replace(self.learned_path, records)


def _replace(path: Path, content: Mapping[str, Any]) -> None:
    """Write so that a reader sees the old file or the new one."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.stem)
    with os.fdopen(handle, "w") as file:
        json.dump(content, file)
    os.replace(temporary, path)
