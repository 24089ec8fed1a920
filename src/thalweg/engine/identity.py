"""The identity of a join block: what its state is made of, and what may differ between the query that wrote a state and
the query that takes it up.

Text, comments, aliases, output names and expressions are no part of it. An input is known by the name it has in FROM, so
a renamed alias finds its rows. Each difference has one line: a reason to refuse, or what follows from it (`adopt.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from thalweg.execute.shape import Shape
from thalweg.language.query import Window

Record = Mapping[str, Any]


def identity(shape: Shape) -> dict[str, Any]:
    """What the state of a block depends on, as plain JSON values."""
    names = lasting(shape)
    inputs = {}
    for n, i in enumerate(shape.query.inputs):
        kind = "" if i.spec.time is None else f"{i.spec.schema.field(i.spec.time).type} {i.spec.unit or ''}".strip()
        used = {c.name for r in shape.residuals for c in r.columns if c.input == i.alias}
        inputs[names[i.alias]] = {
            "alias": i.alias,
            "time": "" if i.spec.time is None else f"{i.spec.time} ({kind})",
            "window": [i.window.kind, i.window.span, i.window.rows, list(i.window.by)],
            "attributes": [list(a) for a in shape.store(n).attributes] if shape.stored(n) else [],
            "columns": {name: str(dtype) for name, dtype in shape.carried(n).items()} if shape.stored(n) else {},
            "conditions": sorted(used),
            "operators": shape.pipeline(n).names,
        }
    keys = [[*sorted({f"{names[c.input]}.{c.name}" for c in k.columns}), str(k.type)] for k in shape.query.block.keys]
    return {"inputs": inputs, "keys": sorted(keys)}


def lasting(shape: Shape) -> dict[str, str]:
    """Names that survive another alias: those in FROM, numbered where one comes twice."""
    met: dict[str, int] = {}
    names = {}
    for i in shape.query.inputs:
        base = i.origin or i.source
        met[base] = met.get(base, 0) + 1
        names[i.alias] = base if met[base] == 1 else f"{base}#{met[base]}"
    return names


def renamed(was: Record, shape: Shape) -> dict[str, str]:
    """The alias that an input has now, by the alias it had."""
    now = {name: alias for alias, name in lasting(shape).items()}
    return {entry["alias"]: now[name] for name, entry in was["inputs"].items() if name in now}


@dataclass
class Comparison:
    """What differs between two identities."""

    refused: list[str] = field(default_factory=list)
    """Why the state can't be taken up."""
    notes: list[str] = field(default_factory=list)
    """What follows from differences that can be bridged."""
    aliases: dict[str, str] = field(default_factory=dict)
    """The alias that each input had, by the alias it has."""
    relearned: list[str] = field(default_factory=list)
    """Inputs whose routes are learned anew."""
    same: bool = True
    """Whether the state fits as it is."""

    def differ(self, note: str = "") -> None:
        self.same = False
        if note:
            self.notes.append(note)


def compare(was: Record, now: Record) -> Comparison:
    found = Comparison()
    for name in sorted(was["inputs"].keys() | now["inputs"].keys()):
        before, after = was["inputs"].get(name), now["inputs"].get(name)
        if before is None:
            found.refused.append(f"input '{name}' is new: the state holds no rows of it")
        elif after is None:
            found.refused.append(f"input '{name}' is gone")
        else:
            found.aliases[after["alias"]] = before["alias"]
            _input(name, before, after, found)
    if was["keys"] != now["keys"] and was["inputs"].keys() == now["inputs"].keys():
        keys = f"the join keys were {_shown(was['keys'])} and are {_shown(now['keys'])}"
        found.refused = [keys, *(said for said in found.refused if not said.startswith("the join keys of"))]
    return found


def _input(name: str, before: Record, after: Record, found: Comparison) -> None:
    if before["operators"] != after["operators"]:
        found.relearned.append(after["alias"])
        found.notes.append(f"'{name}': routes are learned anew, as its operators have other names")
    if before["alias"] != after["alias"]:
        found.differ()
    if before["time"] != after["time"]:
        found.refused.append(f"the time of '{name}' was {before['time'] or 'none'} and is {after['time'] or 'none'}")
    old, new = (Window(kind, span, rows, tuple(by)) for kind, span, rows, by in (before["window"], after["window"]))
    if old != new:
        if old.ordered or new.ordered:
            found.refused.append(f"the window of '{name}' counts rows: it was {shown(old)} and is {shown(new)}")
        elif reach(new) > reach(old):
            found.differ(
                f"the window of '{name}' grows from {shown(old)} to {shown(new)}: rows already dropped stay so, and it is "
                "full again once that much time has passed"
            )
        else:
            found.differ(f"the window of '{name}' shrinks from {shown(old)} to {shown(new)}")
    for column in sorted(before["columns"].keys() | after["columns"].keys()):
        was, now = before["columns"].get(column), after["columns"].get(column)
        if was is None and column in after["conditions"]:
            found.refused.append(f"a condition needs '{name}.{column}', which the stored rows do not have")
        elif was is None and not after["time"]:
            found.refused.append(f"'{name}.{column}' is new, and the table in the checkpoint was kept without it")
        elif was is None:
            found.differ(f"'{name}.{column}' is new: rows stored before have NULL there")
        elif now is None:
            found.differ()
        elif was != now:
            found.refused.append(f"'{name}.{column}' was {was} and is {now}")
    if before["attributes"] != after["attributes"]:
        if sorted(before["attributes"]) != sorted(after["attributes"]):
            found.refused.append(f"the join keys of '{name}' were {_flat(before)} and are {_flat(after)}")
        found.differ()


def reach(window: Window) -> float:
    return float("inf") if window.kind == "unbounded" else window.span


def shown(window: Window) -> str:
    if window.kind == "range":
        return f"RANGE {window.span / 1e6:g} SECONDS"
    if window.ordered:
        by = f"PARTITION BY {', '.join(window.by)} " if window.by else ""
        return f"{by}ROWS {window.rows}"
    return window.kind.upper()


def _shown(keys: list[list[str]]) -> str:
    return "; ".join(" = ".join(columns) for *columns, _ in keys) or "none"


def _flat(entry: Record) -> str:
    return ", ".join(f"{column} as {kind}" for column, kind in entry["attributes"]) or "none"
