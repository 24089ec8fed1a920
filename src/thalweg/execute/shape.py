"""The shape of a query: the facts about its inputs and predicates that hold under every plan.

From a bound query it derives which inputs share which key classes, the operators and allowed orders of each input's
pipeline (thesis 3.2, 5.2), the columns to carry, and what each step of a route compares. No data, no decisions.

One class: many short questions about one unchanging value; its readers ask across all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.errors import DefinitionError, did_you_mean
from thalweg.execute.filters import Filter as Judge
from thalweg.language.query import Column, Filter, Query, Residual
from thalweg.plan import Operator, Pipeline
from thalweg.plan.graph import JoinGraph
from thalweg.plan.layout import Pattern
from thalweg.state.kernels.layout import EXPIRY, KEYS, NEWEST
from thalweg.state.keys import KeyCoder, plain_type


@dataclass(frozen=True, eq=False)
class Step:
    """Joining a partial result with one stem: which keys are shared, what becomes known, what is checked afterwards."""

    target: int
    member: int
    """The target's place among the inputs of its stem."""
    pattern: Pattern
    pairs: NDArray[np.int64]
    adds: NDArray[np.int64]
    number: int
    residuals: tuple[int, ...]
    bound: frozenset[int]
    """The inputs bound after the step."""


@dataclass(eq=False)
class StoreShape:
    """What we store of one source for all inputs that read it: their keys as attributes, and the columns they carry."""

    inputs: list[int] = field(default_factory=list)
    aliases: list[str] = field(default_factory=list)
    attributes: list[tuple[str, str]] = field(default_factory=list)
    """Key columns, and the type in which each is compared."""
    columns: dict[str, pa.DataType] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The alias, or all aliases if several inputs share it."""
        return "+".join(self.aliases)


@dataclass(frozen=True, eq=False)
class Leg:
    """Steps taken in one call, with stacked tables; `ends` delimit each step's pairs and adds."""

    steps: tuple[Step, ...]
    pairs: NDArray[np.int64]
    adds: NDArray[np.int64]
    ends: tuple[tuple[int, int, int, int], ...]

    @classmethod
    def of(cls, steps: tuple[Step, ...]) -> Leg:
        pairs = np.cumsum([0, *(len(s.pairs) for s in steps)]).tolist()
        adds = np.cumsum([0, *(len(s.adds) for s in steps)]).tolist()
        ends = tuple(zip(pairs, pairs[1:], adds, adds[1:], strict=False))
        return cls(steps, np.concatenate([s.pairs for s in steps]), np.concatenate([s.adds for s in steps]), ends)


class Shape:
    """See the module's head. Inputs and key classes are numbered as the query lists them."""

    def __init__(self, query: Query, *, prefiltered: bool = False, leave: bool = False) -> None:
        self.query = query
        self.aliases = [i.alias for i in query.inputs]
        self.number = {a: i for i, a in enumerate(self.aliases)}
        self.coders = [KeyCoder(plain_type(k.type)) for k in query.block.keys]
        self.key_columns: list[dict[int, list[str]]] = [{} for _ in query.inputs]
        for c, key in enumerate(query.block.keys):
            for column in key.columns:
                self.key_columns[self.number[column.input]].setdefault(c, []).append(column.name)
        self.classes = [tuple(sorted(keys)) for keys in self.key_columns]
        self.cells = [np.array([NEWEST, EXPIRY, *map(self.class_column, own)], np.int64) for own in self.classes]
        """For each input, the columns of a partial result that are stored of its tuples."""
        self.left: list[str] = []
        """Texts of the conjuncts that the caller must evaluate on the results."""
        self._left_columns: list[Column] = []
        self.filters = [self._filters(i, prefiltered, leave) for i in range(len(self.aliases))]
        self.residuals = self._residuals(leave)
        self._pipelines: dict[int, Pipeline] = {}
        self._steps: dict[tuple[frozenset[int], int], Step] = {}
        self._legs: dict[tuple[frozenset[int], tuple[int, ...], bool], Leg] = {}
        self.hashed = [c for c, coder in enumerate(self.coders) if not coder.exact]
        """Key classes whose codes may be equal though the values differ."""
        self._carried = [self._columns_carried(i) for i in range(len(self.aliases))]
        self._stored = [self._is_stored(i) for i in range(len(self.aliases))]
        self.stores = self._stores()

    def _stores(self) -> list[StoreShape]:
        """What we store of each source, once for all its inputs."""
        stores: dict[str, StoreShape] = {}
        for i, entry in enumerate(self.query.inputs):
            if self._stored[i]:
                store = stores.setdefault(entry.source, StoreShape())
                store.inputs.append(i)
                store.aliases.append(entry.alias)
                store.columns |= self._carried[i]
                for c, names in sorted(self.key_columns[i].items()):
                    attribute = (names[0], str(self.coders[c].type))
                    if attribute not in store.attributes:
                        store.attributes.append(attribute)
        return list(stores.values())

    def store(self, i: int) -> StoreShape:
        """Where rows of an input are stored."""
        return next(s for s in self.stores if i in s.inputs)

    def positions(self, i: int) -> tuple[int, ...]:
        """For each key class of a stored input, its place among the attributes stored."""
        names = [(self.key_columns[i][c][0], str(self.coders[c].type)) for c in self.classes[i]]
        return tuple(self.store(i).attributes.index(name) for name in names)

    def _filters(self, i: int, prefiltered: bool, leave: bool) -> list[Judge]:
        ordered = self.query.inputs[i].window.ordered
        judges = []
        for f in self.query.block.filters:
            if f.input != self.aliases[i] or (prefiltered and not f.functions and not ordered):
                continue
            if f.evaluate is None:
                self._leave(f.text, [Column(f.input, c) for c in f.columns], leave)
                continue
            judges.append(Judge(f.text, _Vectorised(f), tuple(f.columns), "arrow"))
        return judges

    def _residuals(self, leave: bool) -> list[Residual]:
        kept = []
        for r in self.query.block.residuals:
            if r.evaluate is None:
                self._leave(r.text, list(r.columns), leave)
            else:
                kept.append(r)
        return kept

    def _leave(self, text: str, columns: list[Column], leave: bool) -> None:
        if not leave:
            raise DefinitionError(
                f"only Spark can evaluate '{text}'",
                hint="run the query on Spark, or pass leave=True and evaluate it on the results yourself",
            )
        self.left.append(text)
        self._left_columns.extend(columns)

    @property
    def width(self) -> int:
        """Columns of a partial result: newest time, first expiry, a value per key class, a row number per input."""
        return KEYS + len(self.coders) + len(self.aliases)

    def class_column(self, c: int) -> int:
        return KEYS + c

    def row_column(self, i: int) -> int:
        return KEYS + len(self.coders) + i

    @cached_property
    def streams(self) -> list[int]:
        return [i for i, entry in enumerate(self.query.inputs) if entry.is_stream]

    @cached_property
    def ordered(self) -> bool:
        """Whether results must wait for the watermark because some window depends on the order."""
        return any(i.window.ordered for i in self.query.inputs if i.is_stream)

    def stored(self, i: int) -> bool:
        """Whether another input ever probes this one: tables always, a stream unless it is the only one."""
        return self._stored[i]

    def _is_stored(self, i: int) -> bool:
        if not self.streams:
            return i != 0
        return i not in self.streams or len(self.streams) > 1

    @cached_property
    def needed(self) -> list[Column]:
        """The columns that results must carry, in the order of the inputs' schemas."""
        wanted = {c for o in self.query.output for c in ((o.column,) if o.column else o.needs)} | set(
            self._left_columns
        )
        return [
            Column(a, n) for i, a in enumerate(self.aliases) for n in self._schema(i).names if Column(a, n) in wanted
        ]

    def carried(self, i: int) -> dict[str, pa.DataType]:
        """Columns of an input to store besides its keys: for results, residuals, and comparing hashed keys."""
        return self._carried[i]

    def _columns_carried(self, i: int) -> dict[str, pa.DataType]:
        wanted = [c.name for c in self.needed if c.input == self.aliases[i]]
        wanted += [c.name for r in self.residuals for c in r.columns if c.input == self.aliases[i]]
        wanted += [n for c, names in self.key_columns[i].items() if not self.coders[c].exact for n in names[:1]]
        return {name: plain_type(self._field(i, name).type) for name in dict.fromkeys(wanted)}

    def read(self, i: int) -> list[str]:
        """Every column of an input that the engine reads, including time; if it reads none, an arbitrary one, since
        rows without columns can't be counted."""
        entry = self.query.inputs[i]
        names = list(self.carried(i)) + [n for names in self.key_columns[i].values() for n in names]
        names += [c for f in self.filters[i] for c in f.columns] + list(entry.window.by)
        if entry.spec.time is not None:
            names.append(entry.spec.time)
        if entry.window.kind == "custom":
            names += self._schema(i).names
        for name in names:
            self._field(i, name)
        return list(dict.fromkeys(names)) or self._schema(i).names[:1]

    def _schema(self, i: int) -> pa.Schema:
        return self.query.inputs[i].spec.schema

    def _field(self, i: int, name: str) -> pa.Field:
        schema = self._schema(i)
        if name not in schema.names:
            raise DefinitionError(f"'{self.aliases[i]}' has no column '{name}'", hint=did_you_mean(name, schema.names))
        return schema.field(name)

    def connected(self, i: int, j: int) -> bool:
        """Whether a key class or a predicate over exactly these two joins two inputs."""
        if set(self.classes[i]) & set(self.classes[j]):
            return True
        return any({self.number[a] for a in r.inputs} == {i, j} for r in self.residuals)

    def pipeline(self, i: int) -> Pipeline:
        """Filters of the input first in the list, then the stems of all others. If the input is stored, a tuple must
        pass its filters before it joins; otherwise filters and stems may mix.
        """
        if i not in self._pipelines:
            self._pipelines[i] = self._make_pipeline(i)
        return self._pipelines[i]

    def _make_pipeline(self, i: int) -> Pipeline:
        filters = [Operator(f.name) for f in self.filters[i]]
        first = len(filters)
        guards = frozenset(range(first)) if self.stored(i) else frozenset()
        others = self.others(i)
        stems = []
        for j in others:
            near = None
            if not self.connected(i, j):
                near = frozenset(first + k for k, other in enumerate(others) if other != j and self.connected(other, j))
            stems.append(Operator(self.aliases[j], "stem", guards, near, frozenset(self.classes[j])))
        return Pipeline(self.aliases[i], (*filters, *stems), frozenset(self.classes[i]))

    @cached_property
    def graph(self) -> JoinGraph:
        """What is joined with what."""
        judges = [self.over(r) for r in range(len(self.residuals))]
        exact = []
        for residual in self.residuals:
            vague = {
                self.number[c.input]
                for c in residual.columns
                if not KeyCoder(plain_type(self._field(self.number[c.input], c.name).type)).exact
            }
            exact.append(frozenset(range(len(self.aliases))) - vague)
        travelling = frozenset(self.streams or [0])
        stored = frozenset(i for i in range(len(self.aliases)) if self._stored[i])
        classes = tuple(frozenset(own) for own in self.classes)
        return JoinGraph(tuple(self.aliases), classes, tuple(judges), tuple(exact), travelling, stored)

    def others(self, i: int) -> list[int]:
        return [j for j in range(len(self.aliases)) if j != i]

    def step(self, bound: frozenset[int], target: int) -> Step:
        """The step that joins the stem of `target` once these inputs are bound."""
        step = self._steps.get((bound, target))
        if step is None:
            step = self._steps[bound, target] = self._make_step(bound, target)
        return step

    def leg(self, bound: frozenset[int], targets: tuple[int, ...], single: bool) -> Leg:
        """The steps to these stems that fit in one call: up to one that makes residuals due, or just one."""
        key = (bound, targets, single)
        leg = self._legs.get(key)
        if leg is None:
            steps: list[Step] = []
            for target in targets[:1] if single else targets:
                steps.append(self.step(steps[-1].bound if steps else bound, target))
                if steps[-1].residuals:
                    break
            leg = self._legs[key] = Leg.of(tuple(steps))
        return leg

    def whole(self, bound: frozenset[int], targets: tuple[int, ...]) -> Leg:
        """The steps to all of these stems."""
        steps: list[Step] = []
        for target in targets:
            steps.append(self.step(steps[-1].bound if steps else bound, target))
        return Leg.of(tuple(steps))

    def over(self, residual: int) -> frozenset[int]:
        """The inputs of a predicate between inputs."""
        return frozenset(self.number[a] for a in self.residuals[residual].inputs)

    def _make_step(self, bound: frozenset[int], target: int) -> Step:
        known = {c for i in bound for c in self.classes[i]}
        pattern, pairs, adds = [], [], []
        for k, c in sorted(zip(self.positions(target), self.classes[target], strict=True)):
            if c in known:
                pattern.append(k)
                pairs.append((self.class_column(c), KEYS + k))
            else:
                adds.append((KEYS + k, self.class_column(c)))
        after = bound | {target}
        due = []
        for r, residual in enumerate(self.residuals):
            inputs = {self.number[a] for a in residual.inputs}
            if inputs <= after and not inputs <= bound:
                due.append(r)
        matrix = [np.array(m, np.int64).reshape(-1, 2) for m in (pairs, adds)]
        member = self.store(target).inputs.index(target)
        return Step(target, member, tuple(pattern), matrix[0], matrix[1], self.row_column(target), tuple(due), after)


@dataclass(frozen=True)
class _Vectorised:
    """A bound filter as a function of arrays."""

    filter: Filter

    def __call__(self, *arrays: pa.Array) -> pa.Array:
        assert self.filter.evaluate is not None
        held = self.filter.evaluate(dict(zip(self.filter.columns, arrays, strict=True)))
        if arrays:
            return held
        while isinstance(held, (pa.Array, pa.ChunkedArray)):
            held = held[0]
        return held.as_py() if isinstance(held, pa.Scalar) else held
