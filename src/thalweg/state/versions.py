"""Versions: the state of a cell in files, one version per batch, beside no database and readable by a person.

A folder holds, for each batch, a manifest `<batch>.json` (part name → file, offset, length) and one file with the parts
that the batch changed, named by its content: Arrow IPC streams and JSON, one after the other, memory-mapped to be read.
Batch n reads version n - 1 and writes version n. Invariants: a file is complete before it has its name and never
changes; a manifest is written after the files it names. So a batch that is repeated, by a retry, a speculative copy, a
restarted driver or an older checkpoint, starts from the same version and replaces what an earlier attempt left. A
version that is missing, or shorter than its manifest says, is an error, never an empty state. Versions are kept as long
as Spark keeps those of its own stores.
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from thalweg.errors import CheckpointError
from thalweg.state.format import FORMAT, check_format

RETAIN = 100
"""Derived: versions to keep, as Spark does (`spark.sql.streaming.minBatchesToRetain`)."""
CLEAN = 10
"""Size: batches between two cleanings: listing a folder costs more than keeping a few files longer."""
YOUNG = 600.0
"""Size: seconds for which a file that no manifest names is left alone: another attempt may be about to name it."""

Place = tuple[str, int, int]
"""File, offset and length of a part."""


class Versions:
    """The state of one cell in one batch; a `StateStore`. Nothing is written before `commit`."""

    def __init__(self, folder: Path, batch: int, retain: int = RETAIN, *, empty: bool = False) -> None:
        """`empty` starts from nothing, whatever the batch before has left."""
        self.folder = folder
        self.batch = batch
        self._retain = retain
        self._places: dict[str, Place] = self._read(batch - 1) if batch > 0 and not empty else {}
        self._changed: dict[str, bytes] = {}
        self._maps: dict[str, pa.MemoryMappedFile] = {}

    def _read(self, batch: int) -> dict[str, Place]:
        path = self.folder / f"{batch}.json"
        try:
            manifest = json.loads(path.read_bytes())
            parts = {name: (str(file), int(at), int(size)) for name, (file, at, size) in manifest["parts"].items()}
        except (ValueError, KeyError, TypeError, AttributeError):
            raise _damaged(path, "is no manifest") from None
        except FileNotFoundError:
            there = sorted(batches(self.folder))
            found = f"versions {there[0]} to {there[-1]} are there" if there else "there is no version at all"
            raise CheckpointError(
                f"batch {batch + 1} needs the state that batch {batch} left, and it is not in {path}; {found}",
                hint="the folder of the state belongs to the checkpoint and must be one that all workers see: put it back, "
                "name the right one, or start from a new checkpoint",
            ) from None
        check_format(manifest.get("format"), str(path))
        return parts

    # What a cell asks for

    def exists(self) -> bool:
        return bool(self._places or self._changed)

    def getValue(self, key: tuple[str]) -> tuple[bytes] | None:
        if key[0] in self._changed:
            return (self._changed[key[0]],)
        return (self._content(key[0]),) if key[0] in self._places else None

    def iterator(self) -> Iterator[tuple[tuple[str], tuple[bytes]]]:
        for name in [*self._places, *self._changed]:
            content = self.getValue((name,))
            assert content is not None
            yield (name,), content

    def updateValue(self, key: tuple[str], value: tuple[bytes]) -> None:
        self._places.pop(key[0], None)
        self._changed[key[0]] = value[0]

    def removeKey(self, key: tuple[str]) -> None:
        self._places.pop(key[0], None)
        self._changed.pop(key[0], None)

    def _content(self, name: str) -> bytes:
        file, at, size = self._places[name]
        if file not in self._maps:
            try:
                self._maps[file] = pa.memory_map(str(self.folder / file))
            except FileNotFoundError:
                raise CheckpointError(
                    f"the state of batch {self.batch - 1} names {self.folder / file}, which is not there",
                    hint="the files of the state were removed or are not visible here: put them back, or start from a new "
                    "checkpoint",
                ) from None
        mapped = self._maps[file]
        if mapped.size() < at + size:
            raise _damaged(self.folder / file, f"ends at byte {mapped.size()} and should hold {at + size}")
        mapped.seek(at)
        return mapped.read_buffer(size)  # type: ignore[no-any-return]

    # A version is made

    def commit(self) -> None:
        """Make this version the one that the next batch reads."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if self._changed:
            file, at = f"{_digest(self._changed)}.arrow", 0
            for name, content in self._changed.items():
                self._places[name] = (file, at, len(content))
                at += len(content)
            durable(self.folder / file, list(self._changed.values()))
        manifest = {"format": FORMAT, "batch": self.batch, "parts": self._places}
        path, content = self.folder / f"{self.batch}.json", json.dumps(manifest).encode()
        if not path.exists() or path.read_bytes() != content:
            durable(path, [content])
        synced(self.folder)
        self._changed = {}
        if self.batch % CLEAN == 0:
            clean(self.folder, self.batch - self._retain)


def _damaged(path: Path, how: str) -> CheckpointError:
    return CheckpointError(
        f"a file of the state is damaged: {path} {how}",
        hint="put it back from a copy, or start from a new checkpoint",
    )


def batches(folder: Path) -> list[int]:
    """The batches of which there is a version."""
    return [int(p.stem) for p in folder.glob("*.json") if p.stem.isdigit()]


def clean(folder: Path, before: int) -> None:
    """Remove versions older than a batch, and files that no version names any more."""
    kept = [b for b in batches(folder) if b >= before]
    if not kept:
        return
    named: set[str] = set()
    for batch in kept:
        manifest: Mapping[str, Any] = json.loads((folder / f"{batch}.json").read_bytes())
        named |= {file for file, _, _ in manifest["parts"].values()}
    now = _changed_at(folder / f"{max(kept)}.json", 0.0)  # by the clock that gives files their times
    for path in folder.iterdir():
        if path.suffix == ".json" and path.stem.isdigit():
            gone = int(path.stem) < before
        else:
            gone = path.name not in named and now - _changed_at(path, now) > YOUNG
        if gone:
            path.unlink(missing_ok=True)


def _changed_at(path: Path, now: float) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return now


def _digest(parts: Mapping[str, bytes]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for content in parts.values():
        digest.update(len(content).to_bytes(8, "little"))
        digest.update(content)
    return digest.hexdigest()


def durable(path: Path, contents: list[bytes]) -> None:
    """Write a file under another name, make it durable, and give it its name."""
    whole = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with whole.open("wb") as file:
            for content in contents:
                file.write(content)
            file.flush()
            os.fsync(file.fileno())
        whole.replace(path)
    except OSError:  # no room: what is half written must not take more of it
        whole.unlink(missing_ok=True)
        raise


def synced(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
