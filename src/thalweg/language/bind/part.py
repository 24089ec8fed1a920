"""A join while it is put together: what is joined freely, and what must stand above it.

Inputs that are joined by inner joins lie side by side with their conditions, however they were written: they will form
one block. Outer, semi and anti joins and subqueries hang above them as `Outer`. Invariant: the meaning is that of the
text. The rules are the classical ones: (A left join B) join C is (A join C) left join B, where time lets it
(commuting.py); an outer join whose NULLs a later condition rejects is an inner one; a condition of ON over the right side
alone belongs to the right side.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain

from thalweg.language.algebra import MatchKind
from thalweg.language.bind.conditions import Conjunct
from thalweg.language.bind.entry import Entry
from thalweg.language.bind.keys import Pair
from thalweg.language.bind.nulls import Nulls
from thalweg.language.bind.scope import Scope
from thalweg.language.scalar.expression import Expression


@dataclass(eq=False)
class Outer:
    """A match that stands above what is joined freely."""

    kind: MatchKind
    right: Part
    conditions: list[Conjunct] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)
    compared: list[tuple[Expression, Expression]] = field(default_factory=list)
    """What IN compares: over the left side, and over the right."""
    needs: set[str] = field(default_factory=set)
    """Inputs of the left side in `compared`."""
    null_aware: bool = False
    mark: str = ""
    """The column of a mark, as an alias of its own."""
    scope: Scope | None = None
    """Where the right side was resolved, if not where the match stands."""
    below: set[str] | None = None
    """The inputs that are written before it; None for all."""

    @property
    def adds(self) -> set[str]:
        """The inputs whose columns it adds; they may be NULL."""
        if self.kind in ("semi", "anti"):
            return set()
        return {self.mark} if self.kind == "mark" else self.right.aliases


@dataclass(eq=False)
class Full:
    """A full outer join: both sides may be NULL, so it is a unit."""

    left: Part
    right: Part
    conditions: list[Conjunct]
    pairs: list[Pair]


@dataclass(eq=False)
class Part:
    """Entries that are joined freely, with all conditions between them."""

    entries: list[Entry] = field(default_factory=list)
    fulls: list[Full] = field(default_factory=list)
    outers: list[Outer] = field(default_factory=list)
    conditions: list[Conjunct] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)
    crossed: list[tuple[str, str]] = field(default_factory=list)
    """Inputs between which CROSS JOIN is written."""

    @property
    def aliases(self) -> set[str]:
        """Every input whose columns it has."""
        of_fulls = chain.from_iterable(f.left.aliases | f.right.aliases for f in self.fulls)
        of_outers = chain.from_iterable(o.adds for o in self.outers)
        return {e.alias for e in self.entries}.union(of_fulls, of_outers)

    def join(self, other: Part) -> None:
        """Take in another part, joined freely."""
        self.entries += other.entries
        self.fulls += other.fulls
        self.outers += other.outers
        self.conditions += other.conditions
        self.pairs += other.pairs
        self.crossed += other.crossed

    def simplify(self) -> None:
        """Turn outer joins into inner ones where a condition rejects their NULLs."""
        while self._simpler():
            pass
        for outer in self.outers:
            outer.right.simplify()
        for full in self.fulls:
            full.left.simplify()
            full.right.simplify()

    def _simpler(self) -> bool:
        for outer in self.outers:
            if outer.kind == "left" and self._rejects(outer.right.aliases):
                at = self.outers.index(outer)
                later = self.outers[at + 1 :]  # what stands above may need what is joined here
                del self.outers[at:]
                self.join(outer.right)
                self.outers += later
                self.conditions += outer.conditions
                self.pairs += outer.pairs
                return True
        for full in self.fulls:
            left, right = (self._rejects(side.aliases) for side in (full.left, full.right))
            if left or right:
                kept, other = (full.left, full.right) if left else (full.right, full.left)
                self.fulls.remove(full)
                later, self.outers = self.outers, []
                self.join(kept)
                self.outers += [hung("left", other, full.conditions, full.pairs, kept.aliases), *later]
                return True
        return False

    def _rejects(self, aliases: set[str]) -> bool:
        paired = any(c.input in aliases for pair in self.pairs for c in pair[:2])
        nulls = (Nulls(c.scope.resolved, aliases).rejected_by(c.node) for c in self.conditions)
        return paired or any(nulls)


def hung(
    kind: MatchKind, right: Part, conditions: list[Conjunct], pairs: list[Pair], below: set[str] | None = None
) -> Outer:
    """A match above: conditions over the right side alone are taken into it."""
    inside = [c for c in conditions if c.inputs and set(c.inputs) <= right.aliases]
    right.conditions += inside
    return Outer(kind, right, [c for c in conditions if c not in inside], pairs, below=below)
