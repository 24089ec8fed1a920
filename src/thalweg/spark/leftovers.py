"""What a batch that was killed left in a checkpoint, told from what counts.

In Spark's first format of state (`checkpointFormatVersion` 1), the files of a version are named by its number alone.
A version is a file of changes, and now and then a snapshot. A batch that runs again writes its changes again, but not the
snapshot: the one that a killed attempt left would pass for that of the attempt which took its place. So it is removed
before a query goes on. Its changes stay: where a sink had written the killed batch, Spark counts that batch as done and
runs it no more, and then they are the state. A snapshot is removed only if the changes since the one before it are all
there, so nothing is lost but time.

Spark's second format names files by their writer. With it, a restart fails for good where a file sink had written the
killed batch: that batch does not run again, so Spark has no names to record.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
from pyarrow import fs

log = logging.getLogger("thalweg")
SNAPSHOT, CHANGES = "zip", "changelog"
MOVED = "thalweg-moved"
"""Where moved state lies, inside the checkpoint."""


def opened(folder: str) -> tuple[fs.FileSystem, str]:
    """A folder as Arrow takes it."""
    place = address(folder)
    if place.startswith("/"):
        return fs.LocalFileSystem(), place
    system, path = fs.FileSystem.from_uri(place)
    return system, path


def address(folder: str) -> str:
    """Where Spark would look for a folder, as Arrow writes it: a local path, or a URI. Spark takes paths as they stand, so
    `%` means itself.

    >>> address("file:/a b"), address("file:///a%20b")
    ('/a b', '/a%20b')
    >>> address("s3a://bucket/a b%")
    's3://bucket/a%20b%25'
    """
    scheme, colon, rest = folder.partition(":")
    if scheme == "file" or not colon or "/" in scheme or not rest.startswith("/"):
        return str(Path("/" + rest.lstrip("/") if scheme == "file" and colon else folder).absolute())
    if not rest.startswith("//"):
        raise ValueError(f"'{folder}' names no host: write {scheme}://<host>{rest}")
    return f"{'s3' if scheme in ('s3a', 's3n') else scheme}:{quote(rest, safe='/:@')}"


def forget(folder: str, after: int) -> int:
    """Remove from a checkpoint what no batch needs once this one is committed; returns how many snapshots there were.

    Where Arrow can't do it, a warning says so: then state of two attempts is refused when it is met."""
    try:
        checkpoint = Checkpoint(*opened(folder))
        checkpoint.forget_moved(after)
        return checkpoint.forget_snapshots(after)
    except (OSError, ValueError, pa.ArrowException) as error:
        log.warning("what killed batches left in the checkpoint %s can't be removed by pyarrow.fs (%s)", folder, error)
        return 0


def logged(system: fs.FileSystem, path: str) -> tuple[str, int | None]:
    """The id of a checkpoint's query and its last committed batch; None before the first."""
    commits = system.get_file_info(fs.FileSelector(f"{path}/commits", allow_not_found=True))
    batch = max((int(c.base_name) for c in commits if c.base_name.isdigit()), default=None)
    if batch is None:
        return "", None
    with system.open_input_file(f"{path}/metadata") as file:
        return str(json.loads(file.read())["id"]), batch


@dataclass(frozen=True)
class Checkpoint:
    """The files of a checkpoint."""

    system: fs.FileSystem
    path: str

    def forget_moved(self, before: int) -> None:
        """Remove moved state that was taken up: what was read after batch n counts as soon as batch n + 1 is committed."""
        for there in self.system.get_file_info(fs.FileSelector(f"{self.path}/{MOVED}", allow_not_found=True)):
            if there.base_name.isdigit() and int(there.base_name) < before:
                self.system.delete_dir(there.path)

    def forget_snapshots(self, after: int) -> int:
        """Remove snapshots of the state after later batches than this one; returns how many there were."""
        gone = 0
        for folder, versions in self._stores():
            for version in superfluous(versions[SNAPSHOT], versions[CHANGES], after + 1):
                self.system.delete_file(f"{folder}/{version}.{SNAPSHOT}")
                gone += 1
        if gone:
            log.info("removed %d snapshots of state that no committed batch has written", gone)
        return gone

    def _stores(self) -> Iterator[tuple[str, dict[str, list[int]]]]:
        """For each folder of files of state, the versions of its snapshots and of its changes."""
        found: dict[str, dict[str, list[int]]] = {}
        chosen = fs.FileSelector(f"{self.path}/state", allow_not_found=True, recursive=True)
        for file in self.system.get_file_info(chosen):
            folder, _, name = file.path.rpartition("/")
            version, _, kind = name.partition(".")
            if version.isdigit() and kind in (SNAPSHOT, CHANGES):
                found.setdefault(folder, {SNAPSHOT: [], CHANGES: []})[kind].append(int(version))
        yield from found.items()


def superfluous(snapshots: Iterable[int], changes: Iterable[int], above: int) -> list[int]:
    """Snapshots of versions above one that the changes since the snapshot before replace, newest first.

    The first stays: only a snapshot names the column families, and Spark writes that one again with its batch.

    >>> superfluous([1, 5, 7], [2, 3, 4, 5, 6, 7], above=4)
    [7, 5]
    >>> superfluous([1, 5], [2, 3, 5], above=0)
    []
    """
    left, there = sorted(snapshots), set(changes)
    gone = []
    for version in sorted((v for v in left if v > above), reverse=True):
        before = max((v for v in left if v < version), default=None)
        if before is not None and all(v in there for v in range(before + 1, version + 1)):
            left.remove(version)
            gone.append(version)
    return gone
