"""The seal of a checkpoint: by whom a cell's state was written, and what a query that takes it up must be.

What the state holds is said by the engine's own record (`engine/identity.py`). The seal adds what the engine does not
know: how rows were cut into cells, the code of Python functions, and the conditions that stored rows have passed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from thalweg.engine.identity import lasting
from thalweg.engine.recut import Grid
from thalweg.errors import CheckpointError
from thalweg.execute.shape import Shape
from thalweg.language.algebra import Bound
from thalweg.language.fingerprint import changed, fingerprint
from thalweg.language.query import Query
from thalweg.plan import Event, Reason
from thalweg.plan.shares import Shares
from thalweg.state.format import FORMAT

Seal = Mapping[str, Any]
NEW = "restore what changed, or start from a new checkpoint folder"


def seal(query: Query | Bound, shares: Shares, judged: Query | Bound) -> dict[str, Any]:
    """The seal of a query as its cells run it; `judged` still has the conditions that packing applies."""
    if isinstance(query, Query):
        shape = Shape(query, prefiltered=True, leave=True)
        grid, names = Grid.made(shape, shares), lasting(shape)
    else:
        inputs = [i for leaf in query.leaves for i in leaf.query.inputs]
        names = {i.source: i.source for i in inputs}
        grid = Grid(shares.sizes, dict.fromkeys(names, (0,)))
    conditions: dict[str, list[str]] = {}
    for block in [judged] if isinstance(judged, Query) else [leaf.query for leaf in judged.leaves]:
        for f in block.block.filters:
            plain = re.sub(rf"(?<![\w.`]){re.escape(f.input)}\.", "", f.text)
            conditions.setdefault(names[block.input(f.input).source], []).append(plain)
    return {
        "format": FORMAT,
        "grid": grid.record(),
        "whole": isinstance(query, Bound),
        "functions": {name: fingerprint(function) for name, function in sorted(query.functions.items())},
        "conditions": {name: sorted(texts) for name, texts in sorted(conditions.items())},
    }


def digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()


def whole(parts: Mapping[str, bytes]) -> str:
    """One digest over the digests of all parts, by name: state that is part of one version and part of another differs.

    >>> whole({"a": b"1", "b": b"2"}) == whole({"b": b"2", "a": b"1"}) != whole({"a": b"1", "b": b"3"})
    True
    """
    return digest(b"".join(name.encode() + b"\0" + parts[name] for name in sorted(parts))).hex()


def check_whole(was: Seal, parts: Mapping[str, bytes]) -> None:
    """Raise unless these are the parts, given by their digests, that were sealed; older seals do not say."""
    if was.get("parts", whole(parts)) != whole(parts):
        raise CheckpointError(
            "the state of a cell is part of one attempt at a batch and part of another",
            hint="go back to a copy of the checkpoint, or start from a new one; this can't happen if every start gives "
            "tw.sql(..., checkpoint=<its folder>), which removes what killed batches left",
        )


def check_format(was: Seal) -> None:
    if was.get("format") != FORMAT:
        by = "Thalweg 0.1" if "fingerprint" in was else "another version of Thalweg"
        raise CheckpointError(
            f"this checkpoint was written by {by}, whose state this version does not read",
            hint="start from a new checkpoint folder, or go on with that version",
        )


def other_cut(was: Seal, now: Seal) -> str:
    """How the cut differs; empty if it does not."""
    old, new = Grid.of(was["grid"]), Grid.of(now["grid"])
    if old == new or old.classes != new.classes:  # other inputs or keys: the engine says so by name
        return ""
    if old.cells != new.cells:
        return f"the checkpoint is cut into {_cells(old.cells)}, the query into {_cells(new.cells)}"
    return f"the checkpoint is cut by shares {old.sizes}, the query by {new.sizes}"


def refuse_cut(was: Seal, now: Seal) -> CheckpointError:
    """Whole queries stay with their cells."""
    stay = f"cells={Grid.of(was['grid']).cells} keeps the old ones"
    move = "tw.sql(..., checkpoint=<its folder>) moves the state to the new cells; "
    return CheckpointError(other_cut(was, now), hint=stay if now["whole"] else move + stay)


def refuse_mixed() -> CheckpointError:
    """Cells that are not of one cut hold rows twice, or not at all."""
    return CheckpointError(
        "the cells' state is part of one cut and part of another, and can't be moved",
        hint="a task of a killed driver wrote after the batch had run again: go back to a copy of the checkpoint and of its "
        "state, or start from a new one",
    )


def _cells(n: int) -> str:
    return "one cell" if n == 1 else f"{n} cells"


def news(was: Seal, now: Seal) -> list[tuple[str, str]]:
    """Changes that are accepted and told: the kind of event, and a sentence."""
    told = [
        ("function changed", f"'{name}' has other code now; rows in windows were judged by the old")
        for name in changed(was["functions"], now["functions"])
    ]
    for name in sorted(was["conditions"].keys() | now["conditions"].keys()):
        before, after = was["conditions"].get(name, []), now["conditions"].get(name, [])
        if before != after:
            shown = " AND ".join(before) or "no condition"
            told.append(("condition changed", f"rows of '{name}' in windows were judged by: {shown}"))
    return told


def events(was: Seal, now: Seal) -> list[Event]:
    return [Event("restart", kind, 0, 0, Reason(sentence)) for kind, sentence in news(was, now)]
