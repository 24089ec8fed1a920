"""A join that was put together (part.py) to nodes: blocks of inputs as leaves, and matches above them.

Inputs that conditions connect become one leaf, so that the adaptive join does as much as possible. Leaves, subqueries
and outer joins are units; units that a condition connects are matched, by equalities first, and what hangs above goes
on when nothing else can be joined below it. Invariant: every condition is used where all its columns are.

One file: where a condition may be used depends on every unit that was assembled before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from thalweg.errors import QueryError
from thalweg.language.algebra import Keep, Leaf, Match, MatchKind, Node
from thalweg.language.bind.columns import columns_of, keyed
from thalweg.language.bind.commuting import commutes
from thalweg.language.bind.conditions import Conjunct, above, engine_residual, filters, foresee, residual
from thalweg.language.bind.entry import Entry
from thalweg.language.bind.keys import Keys, Pair, key_pair
from thalweg.language.bind.part import Full, Outer, Part
from thalweg.language.bind.scope import Scope, listed
from thalweg.language.bind.world import label
from thalweg.language.query import Block, Column, OutputColumn, Query, Residual
from thalweg.language.scalar.checked import As
from thalweg.language.scalar.expression import Apply, Expression, Field
from thalweg.language.scalar.logic import connected
from thalweg.language.scalar.types import BOOL
from thalweg.language.text.quoting import quoted_column

MARK = "holds"
"""What a mark's column is called, after its alias."""


@dataclass(eq=False)
class _Unit:
    node: Node
    aliases: set[str]
    entries: list[Entry]


@dataclass(eq=False)
class _Condition:
    """A condition over the columns of nodes that is not used yet."""

    expression: Expression
    aliases: set[str]
    key: bool
    """Whether it is an equality whose sides have columns of different inputs."""


class Assembly:
    """Makes one node of one part."""

    def __init__(self, scope: Scope, part: Part, instants: bool = False) -> None:
        """`instants`: it is only looked at instant by instant, so joins may change places freely."""
        self._scope = scope
        self._part = part
        self._instants = instants
        self._hanging = list(part.outers)
        self._keys = Keys(scope)
        self._waiting: list[_Condition] = []
        self._units: list[_Unit] = []

    def node(self) -> Node:
        inputs = [e for e in self._part.entries if e.input is not None]
        blocked, rest, apart = self._sorted({e.alias for e in inputs})
        components = self._components(inputs, blocked)
        parted = [c for c in blocked if c.inputs and not any(set(c.inputs) <= {e.alias for e in m} for m in components)]
        blocked, rest = [c for c in blocked if c not in parted], [*rest, *parted]
        for c in (*rest, *(c for o in self._part.outers for c in o.conditions)):
            foresee(c.scope, c.node, condition=True)
        constant = [c for c in blocked if not c.inputs]
        for i, members in enumerate(components):
            self._leaf(members, [*([] if i else constant), *(c for c in blocked if c.inputs)])
        in_leaves = [u.aliases for u in self._units]
        self._units += [self._derived(e) for e in self._part.entries if e.child is not None]
        self._units += [self._full(f) for f in self._part.fulls]
        self._units.sort(key=lambda u: min((self._scope.order(a) for a in u.aliases), default=0))
        self._waiting += [_waiting(c, above(c)) for c in rest]
        between = [p for p in self._keys.rest if not any({p[0].input, p[1].input} <= u for u in in_leaves)]
        self._waiting += [self._paired(p) for p in (*between, *apart)]
        while self._hanging:
            known = {a for u in self._units for a in u.aliases}
            outer = next((o for o in self._hanging if _needs(o) <= known), self._hanging[0])
            self._join(_needs(outer))
            self._hanging.remove(outer)
            self._hang(outer)
        self._join(None)
        assert not self._waiting, "a condition that no step took up"
        return self._units[0].node

    def alone(self, output: tuple[OutputColumn, ...]) -> Block:
        """The block of a part that is nothing but inputs."""
        inputs = [e for e in self._part.entries if e.input is not None]
        blocked, _, _ = self._sorted({e.alias for e in inputs})
        first, *others = self._components(inputs, blocked)
        if others:
            raise self._unconnected(others[0][0], first)
        return self.block(first, blocked, output, [residual(c.scope, c) for c in blocked if len(c.inputs) > 1])

    def _sorted(self, inputs: set[str]) -> tuple[list[Conjunct], list[Conjunct], list[Pair]]:
        """Conditions over inputs alone, and over anything else; equal columns go to `_keys`, except for those of outer
        joins, which come last."""
        inner = {e.alias for e in self._part.entries}
        pairs = list(self._part.pairs)
        blocked: list[Conjunct] = []
        rest: list[Conjunct] = []
        for c in self._part.conditions:
            pair = key_pair(c) if len(c.inputs) > 1 and set(c.inputs) <= inner else None
            if pair is not None:
                pairs.append(pair)
            else:
                (blocked if inputs and set(c.inputs) <= inputs else rest).append(c)
        freely = [p for p in pairs if {p[0].input, p[1].input} <= inner]
        self._keys.add(freely)
        return blocked, rest, [p for p in pairs if p not in freely]

    # Units

    def _components(self, inputs: Sequence[Entry], conditions: Iterable[Conjunct]) -> list[list[Entry]]:
        """Inputs that conditions or CROSS JOIN connect, and that need not wait for a match between them."""
        links = [set(c.inputs) for c in conditions] + [set(pair) for pair in self._part.crossed]
        links += [{p[0].input, p[1].input} for p in self._keys.rest]
        left = list(inputs)
        found: list[list[Entry]] = []
        while left:
            first = self._above(left[0])
            together = {e.alias for e in inputs if self._above(e) == first}
            equal = [{c.input for c in k.columns} for k in self._keys.classes(together)]
            seen = reached(left[0].alias, [link for link in (*links, *equal) if link <= together])
            found.append([e for e in left if e.alias in seen])
            left = [e for e in left if e.alias not in seen]
        return found

    def _above(self, entry: Entry) -> list[Outer]:
        """The matches that an entry must stand above."""
        if self._instants:
            return []
        return [
            o
            for o in self._hanging
            if o.below is not None and entry.alias not in o.below | _needs(o) and not commutes(entry, o)
        ]

    def _leaf(self, members: list[Entry], conditions: Sequence[Conjunct]) -> None:
        aliases = {e.alias for e in members}
        residuals = [engine_residual(c.scope, c) for c in conditions if len(c.inputs) > 1 and set(c.inputs) <= aliases]
        for pair in self._keys.rest:
            if {pair[0].input, pair[1].input} <= aliases:
                self._paired(pair)  # an error if only Spark can compare the two
        output = [OutputColumn(str(c), quoted_column(c), c, (c,)) for e in members for c in columns_of(e)]
        block = self.block(members, conditions, tuple(output), residuals)
        schema = pa.schema([(str(c), self._scope.type(c)) for e in members for c in columns_of(e)])
        leaf = Leaf(schema, Query(self._scope.parsed.text, block, self._scope.world.used))
        self._units.append(_Unit(leaf, aliases, members))

    def block(
        self, members: Sequence[Entry], conditions: Sequence[Conjunct], output: tuple[OutputColumn, ...],
        residuals: list[Residual],
    ) -> Block:  # fmt: skip
        """The block of some inputs, with the conditions over them alone; `residuals` are those over several."""
        aliases = {e.alias for e in members}
        mine = [c for c in conditions if set(c.inputs) <= aliases]
        over_one = [f for c in mine if len(c.inputs) < 2 for f in filters(c.scope, c, members[0])]
        residuals = residuals + [self._keys.residual(p) for p in self._keys.rest if {p[0].input, p[1].input} <= aliases]
        keys = self._keys.classes(aliases)
        links = [{c.input for c in k.columns} for k in keys] + [set(r.inputs) for r in residuals]
        cross = reached(members[0].alias, links) != aliases
        inputs = tuple(e.input for e in members if e.input is not None)
        return Block(inputs, keys, (*over_one, *self._keys.implied(aliases)), tuple(residuals), output, cross)

    def _derived(self, entry: Entry) -> _Unit:
        assert entry.child is not None
        node = entry.child
        for f in self._keys.implied({entry.alias}):
            a, b = (Column(entry.alias, n) for n in f.columns)
            type = next(t for columns, t in self._keys.groups if a in columns)
            node = Keep(node.schema, node, Apply(BOOL, "=", (_as(self._scope, a, type), _as(self._scope, b, type))))
        return _Unit(node, {entry.alias}, [entry])

    def _full(self, full: Full) -> _Unit:
        left, right = (Assembly(self._scope, side, self._instants).node() for side in (full.left, full.right))
        conditions = [above(c) for c in full.conditions] + [self._paired(p).expression for p in full.pairs]
        node = matched("full", left, right, conditions, self._scope)
        return _Unit(node, full.left.aliases | full.right.aliases, [*full.left.entries, *full.right.entries])

    # Joining

    def _join(self, wanted: set[str] | None) -> None:
        """Match units that conditions connect; then, for what needs these inputs together (or all), also others."""
        while True:
            self._keep()
            found = self._connected(keys=True) or self._connected(keys=False)
            if found is None:
                found = self._lone(wanted)
            if found is None:
                return
            self._match(*found)

    def _connected(self, keys: bool) -> tuple[_Unit, _Unit] | None:
        for i, left in enumerate(self._units):
            for right in self._units[i + 1 :]:
                if not self._together(left, right):
                    continue
                both = left.aliases | right.aliases
                if keys and any(_links(columns, left, right) for columns, _ in self._keys.groups):
                    return left, right
                for c in self._waiting:
                    if (
                        (c.key or not keys)
                        and c.aliases <= both
                        and not (c.aliases <= left.aliases or c.aliases <= right.aliases)
                    ):
                        return left, right
        return None

    def _together(self, left: _Unit, right: _Unit) -> bool:
        """Whether no match of one of them comes first."""
        for one, other in ((left, right), (right, left)):
            for outer in (o for e in other.entries for o in self._above(e)):
                if outer.below is not None and outer.below & one.aliases:
                    return False
        return True

    def _lone(self, wanted: set[str] | None) -> tuple[_Unit, _Unit] | None:
        """Two units that may be joined without a condition."""
        if len(self._units) < 2:
            return None
        needed = [u for u in self._units if wanted is None or u.aliases & wanted]
        if len(needed) < 2:
            return None
        first = needed[0]
        for other in needed[1:]:
            crossed = any(_across(pair, first, other) for pair in self._part.crossed)
            if crossed or any(all(e.lone for e in u.entries) for u in (first, other)):
                return first, other
        raise self._unconnected(needed[1].entries[0], first.entries)

    def _unconnected(self, lost: Entry, others: Sequence[Entry]) -> QueryError:
        node = lost.node.this if isinstance(lost.node, exp.Table) and lost.node.args.get("joins") else lost.node
        return self._scope.parsed.error(
            node, f"no predicate connects '{lost.name}' with {listed([e.name for e in others])}",
            "set one of its columns equal to one of another input, or write CROSS JOIN if every pair is meant",
        )  # fmt: skip

    def _match(self, left: _Unit, right: _Unit) -> None:
        both = left.aliases | right.aliases
        conditions = []
        for columns, type in self._keys.groups:
            a = next((c for c in columns if c.input in left.aliases), None)
            b = next((c for c in columns if c.input in right.aliases), None)
            if a is not None and b is not None:
                conditions.append(Apply(BOOL, "=", (_as(self._scope, a, type), _as(self._scope, b, type))))
        taken = [c for c in self._waiting if c.aliases <= both]
        self._waiting = [c for c in self._waiting if c not in taken]
        node = matched("inner", left.node, right.node, [*conditions, *(c.expression for c in taken)], self._scope)
        self._units[self._units.index(left)] = _Unit(node, both, [*left.entries, *right.entries])
        self._units.remove(right)

    def _keep(self) -> None:
        """Apply the conditions that have all their columns in one unit."""
        for unit in self._units:
            ready = [c for c in self._waiting if c.aliases <= unit.aliases]
            if ready:
                self._waiting = [c for c in self._waiting if c not in ready]
                condition = connected("and", [c.expression for c in ready])
                unit.node = Keep(unit.node.schema, unit.node, condition)

    def _hang(self, outer: Outer) -> None:
        unit = next((u for u in self._units if _needs(outer) <= u.aliases), self._units[0])
        right = Assembly(outer.scope or self._scope, outer.right, self._instants).node()
        conditions = [above(c) for c in outer.conditions] + [self._paired(p).expression for p in outer.pairs]
        unit.node = matched(
            outer.kind, unit.node, right, conditions, self._scope, outer.compared, outer.null_aware, outer.mark
        )  # fmt: skip
        unit.aliases |= outer.adds

    def _paired(self, pair: Pair) -> _Condition:
        found = self._keys.same(pair, label)
        if found is None:
            raise self._scope.parsed.error(
                pair[2], "only Spark can compare these two, but it is needed before the rest of the query",
                "CAST one of them to the type of the other",
            )  # fmt: skip
        return _Condition(found, {pair[0].input, pair[1].input}, key=True)


def matched(
    kind: MatchKind, left: Node, right: Node, conditions: Sequence[Expression], scope: Scope,
    compared: Sequence[tuple[Expression, Expression]] = (), null_aware: bool = False, mark: str = "",
) -> Match:  # fmt: skip
    """A match on conditions: equalities between the sides as keys, what IN compares last; the others as they are."""
    pairs: list[tuple[Expression, Expression]] = []
    others: list[Expression] = []
    for c in conditions:
        sides = _sides(c, left, right)
        if sides is not None:
            pairs.append(sides)
        else:
            others.append(c)
    pairs += compared
    left, on_left = keyed(scope.world, left, [a for a, _ in pairs])
    right, on_right = keyed(scope.world, right, [b for _, b in pairs])
    fields = list(left.schema)
    if kind == "mark":
        fields.append(pa.field(f"{mark}.{MARK}", BOOL))
    elif kind not in ("semi", "anti"):
        fields += list(right.schema)
    keys = tuple(zip(on_left, on_right, strict=True))
    condition = connected("and", others) if others else None
    return Match(pa.schema(fields), left, right, kind, keys, condition, null_aware)


def _sides(c: Expression, left: Node, right: Node) -> tuple[Expression, Expression] | None:
    """The sides of an equality between the two, the left one first."""
    if not (isinstance(c, Apply) and c.op == "="):
        return None
    a, b = c.of
    names = [set(n.schema.names) for n in (left, right)]
    of_a, of_b = fields_of(a), fields_of(b)
    if not of_a or not of_b:
        return None
    if of_a <= names[0] and of_b <= names[1]:
        return a, b
    return (b, a) if of_a <= names[1] and of_b <= names[0] else None


def fields_of(expression: Expression) -> set[str]:
    """The columns that an expression reads."""
    found, waiting = set(), [expression]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Field):
            found.add(part.key)
        waiting += part.parts
    return found


def reached(first: str, links: Sequence[set[str]]) -> set[str]:
    """The inputs that links connect with the first one."""
    seen = {first}
    while grown := [link for link in links if link & seen and not link <= seen]:
        seen = seen.union(*grown)
    return seen


def _needs(outer: Outer) -> set[str]:
    """The inputs of the left side that a match needs."""
    paired = {c.input for p in outer.pairs for c in p[:2]}
    named = outer.needs | paired | {a for c in outer.conditions for a in c.inputs}
    return named - outer.right.aliases


def _waiting(c: Conjunct, expression: Expression) -> _Condition:
    return _Condition(expression, set(c.inputs), isinstance(expression, Apply) and expression.op == "=")


def _links(columns: Sequence[Column], left: _Unit, right: _Unit) -> bool:
    return any(c.input in left.aliases for c in columns) and any(c.input in right.aliases for c in columns)


def _across(pair: tuple[str, str], a: _Unit, b: _Unit) -> bool:
    return any(x in u.aliases and y in v.aliases for u, v in ((a, b), (b, a)) for x, y in [pair])


def _as(scope: Scope, column: Column, type: pa.DataType) -> Expression:
    found = Field(scope.type(column), label(column))
    return found if found.type == type else As(type, found)
