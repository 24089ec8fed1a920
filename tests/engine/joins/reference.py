"""The exact answer of a join case by nested loops in plain Python: the check on the oracle itself.

Shares nothing with DuckDB and nothing with the engine: values are Python values, NULL is None, three-valued logic is
written out, and a window's content at a moment is a list that was sorted and cut.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from thalweg.testing.joincase import CaseInput, JoinCase
from thalweg.testing.joinpredicates import (
    FUNCTIONS,
    Among,
    Between,
    Call,
    Compare,
    Constant,
    Missing,
    Not,
    Or,
    Plus,
    Predicate,
    Ref,
    Term,
    aliases,
)

Binding = Mapping[tuple[str, str], Any]


def answer(case: JoinCase) -> list[tuple[int, ...]]:
    """Results as row numbers, one per input."""
    return list(_Loops(case).results())


class _Loops:
    def __init__(self, case: JoinCase) -> None:
        self.case = case
        arrivals = case.arrivals()
        self.rows = {
            s.name: [r for r, _ in arrivals[s.name]] if s.time is not None else list(range(len(s.rows)))
            for s in case.sources
        }
        self.contents: dict[tuple[str, int], frozenset[int]] = {}

    def results(self) -> Iterator[tuple[int, ...]]:
        for chosen in self.choices(0, {}, ()):
            times = [
                self.case.source(i.source).micros(r)
                for i, r in zip(self.case.inputs, chosen, strict=True)
                if i.window is not None
            ]
            if not times:
                yield chosen
                continue
            moment = max(times)
            if all(
                i.window is None or r in self.content(i, moment)
                for i, r in zip(self.case.inputs, chosen, strict=True)
            ):  # fmt: skip
                yield chosen

    def choices(
        self, k: int, binding: dict[tuple[str, str], Any], chosen: tuple[int, ...]
    ) -> Iterator[tuple[int, ...]]:
        if k == len(self.case.inputs):
            yield chosen
            return
        entry = self.case.inputs[k]
        source = self.case.source(entry.source)
        known = {i.alias for i in self.case.inputs[: k + 1]}
        due = [
            p for p in self.case.predicates if aliases(p) <= known and (entry.alias in aliases(p) or not aliases(p))
        ]  # fmt: skip
        for r in self.rows[entry.source]:
            bound = dict(binding)
            bound.update({(entry.alias, n): v for n, v in zip(source.schema.names, source.rows[r], strict=True)})
            if all(holds(p, bound) is True for p in due):
                yield from self.choices(k + 1, bound, (*chosen, r))

    def content(self, entry: CaseInput, moment: int) -> frozenset[int]:
        key = (entry.alias, moment)
        if key not in self.contents:
            self.contents[key] = frozenset(self._content(entry, moment))
        return self.contents[key]

    def _content(self, entry: CaseInput, moment: int) -> list[int]:
        source, window = self.case.source(entry.source), entry.window
        assert window is not None
        # Stable: tuples of one time stay in their order of arrival.
        past = sorted((r for r in self.rows[entry.source] if source.micros(r) <= moment), key=source.micros)
        match window.kind:
            case "range":
                return [r for r in past if source.micros(r) >= moment - window.span]
            case "now":
                return [r for r in past if source.micros(r) == moment]
            case "rows":
                return past[-window.rows :]
            case "partition":
                groups = defaultdict(list)
                places = [source.schema.get_field_index(c) for c in window.by]
                for r in past:
                    groups[tuple(_group(source.rows[r][p]) for p in places)].append(r)
                return [r for group in groups.values() for r in group[-window.rows :]]
            case _:
                return past


def _group(value: Any) -> Any:
    """NULLs are one group, and so are all NaN and both zeros."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    return value


def holds(part: Predicate, binding: Binding) -> bool | None:
    """True, False, or None for unknown."""
    match part:
        case Compare(a, op, b):
            return _compare(value(a, binding), op, value(b, binding))
        case Between(a, low, high):
            x = value(a, binding)
            return _and(_compare(x, ">=", value(low, binding)), _compare(x, "<=", value(high, binding)))
        case Among(a, options):
            x = value(a, binding)
            return None if x is None else any(_order(x, o) == 0 for o in options)
        case Missing(a):
            return value(a, binding) is None
        case Call(name, arguments):
            return FUNCTIONS[name](*(value(a, binding) for a in arguments))
        case Not(a):
            inner = holds(a, binding)
            return None if inner is None else not inner
        case Or(a, b):
            left, right = holds(a, binding), holds(b, binding)
            if left is True or right is True:
                return True
            return None if left is None or right is None else False


def _and(left: bool | None, right: bool | None) -> bool | None:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def value(term: Term, binding: Binding) -> Any:
    match term:
        case Ref(alias, column):
            return binding[alias, column]
        case Constant(constant):
            return constant
        case Plus(a, b):
            x, y = value(a, binding), value(b, binding)
            return None if x is None or y is None else x + y


def _compare(x: Any, op: str, y: Any) -> bool | None:
    if op == "<=>":
        return x is None and y is None if x is None or y is None else _order(x, y) == 0
    if x is None or y is None:
        return None
    order = _order(x, y)
    return {
        "=": order == 0, "<>": order != 0, "<": order < 0, "<=": order <= 0, ">": order > 0, ">=": order >= 0,
    }[op]  # fmt: skip


def _order(x: Any, y: Any) -> int:
    """Spark's order: NaN equals itself and is greater than everything else; strings by their UTF-8 bytes."""
    if isinstance(x, str):
        x, y = x.encode(), y.encode()
    left, right = isinstance(x, float) and math.isnan(x), isinstance(y, float) and math.isnan(y)
    if left or right:
        return int(left) - int(right)
    return int(x > y) - int(x < y)
