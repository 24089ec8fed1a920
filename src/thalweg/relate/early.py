"""Which time windows let their rows go on at once, and which groups then close with their window.

Rows under `window(...)` enter when it closes. Where all that is made of them are groups by that window, they need not be
kept until then: each is added to its group as it comes, and the group is given when the window closes. Kept are, for each
group, a few numbers or one value of each aggregate, and all values of DISTINCT. Aggregates that depend on the order of
rows, and those of a user, get their rows at the close.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from thalweg.language.algebra import RESULT_TIME, Group, Hop, Keep, Node, Project
from thalweg.language.scalar.expression import Expression, Field
from thalweg.language.settled import settled
from thalweg.relate.aggregates.choose import ORDERED, named


def early(roots: Sequence[Node], nodes: Sequence[Node]) -> set[int]:
    """The time windows whose rows go on at once, and the groups that close with them, by identity."""
    readers: dict[int, list[Node | None]] = {id(root): [None] for root in roots}
    for node in nodes:
        for child in node.children:
            readers.setdefault(id(child), []).append(node)
    found: set[int] = set()
    for hop in (n for n in nodes if isinstance(n, Hop)):
        groups = _closing(hop, readers)
        if groups is not None:
            found |= {id(hop), *map(id, groups)}
    return found


def _closing(node: Node, readers: Mapping[int, Sequence[Node | None]]) -> list[Group] | None:
    """The groups that are all that is made of a node; None if something else is, too."""
    found: list[Group] = []
    for reader in readers[id(node)]:
        if isinstance(reader, Group) and _adds_up(reader):
            found.append(reader)
        elif isinstance(reader, Project | Keep) and not _tells_time(reader):
            below = _closing(reader, readers)
            if below is None:
                return None
            found += below
        else:
            return None
    return found


def _adds_up(group: Group) -> bool:
    made = group.aggregates.values()
    plain = all(a.make is None and (a.distinct or named(a) not in ORDERED) for a in made)
    return plain and bool(settled(group.child) & set(group.keys))


def _tells_time(node: Project | Keep) -> bool:
    """Whether a node reads when its rows enter: that is the close of the window."""
    expressions: Sequence[Expression] = list(node.columns.values()) if isinstance(node, Project) else [node.condition]
    return any(isinstance(e, Field) and e.key == RESULT_TIME for whole in expressions for e in whole.walk())
