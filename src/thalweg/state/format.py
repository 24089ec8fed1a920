"""The format of state that outlives a process: one number for snapshots, whole queries, files and seals of checkpoints.

Invariant: state of another format is refused, never misread.
"""

from __future__ import annotations

from typing import Any

from thalweg.errors import CheckpointError

FORMAT = 4
"""Mark: raised by one whenever any part of the state is written otherwise."""
WRITTEN_BY = {1: "Thalweg 0.1 or soon after it", 2: "a version between 0.1 and 0.2", 3: "a version between 0.1 and 0.2"}


def check_format(found: Any, of: str = "the state") -> None:
    """Refuse state that this version does not read."""
    if found != FORMAT:
        written = WRITTEN_BY.get(found, "another version of Thalweg")
        raise CheckpointError(
            f"{of} has format {found}, written by {written}; this version reads {FORMAT}",
            hint="start from a new checkpoint folder, or go on with that version",
        )
