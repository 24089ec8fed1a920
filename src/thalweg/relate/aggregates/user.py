"""A user's own aggregate: one object for each group (contract/aggregate.py). Its Python runs once for each row."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from thalweg.errors import AggregateError
from thalweg.relate.aggregates.contract import Accumulator, Ints, Touched
from thalweg.relate.rows.parts import Blocks


class UserAggregate(Accumulator):
    def __init__(self, name: str, make: Callable[[], Any], result: pa.DataType) -> None:
        self._name, self._make, self._result = name, make, result
        self._objects: dict[int, Any] = {}
        self._blocks = Blocks()

    def step(self, touched: Touched, arguments: Sequence[pa.Array]) -> pa.Array:
        columns = [a.to_pylist() for a in arguments]
        values = [self._value(self._object(g)) for g in touched.groups.tolist()]
        order = np.argsort(touched.entry, kind="stable")
        begin = np.searchsorted(touched.entry[order], np.arange(len(touched.old) + 1)).tolist()
        events, signs = order.tolist(), touched.sign.tolist()
        for e, group in enumerate(touched.group.tolist()):
            mine, some = self._objects[group], events[begin[e] : begin[e + 1]]
            for verb, sense in ((mine.add, 1), (mine.remove, -1)):
                for event in some:
                    for _ in range(sense * signs[event]):
                        self._called(verb, *(c[event] for c in columns))
            values.append(self._value(mine))
        self._blocks.touch(touched.groups)
        try:
            return pa.array(values, self._result)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise AggregateError(
                f"the value of aggregate '{self._name}' is no {self._result}: {error}", hint="see what value() returns"
            ) from error

    def _object(self, group: int) -> Any:
        if group not in self._objects:
            self._objects[group] = self._called(self._make)
        return self._objects[group]

    def _value(self, mine: Any) -> Any:
        return self._called(mine.value)

    def _called(self, function: Callable[..., Any], *values: Any) -> Any:
        try:
            return function(*values)
        except Exception as error:
            verb = getattr(function, "__name__", "making it")
            raise AggregateError(
                f"aggregate '{self._name}' raised in {verb}: {type(error).__name__}: {error}",
                hint="thalweg.testing.check_aggregate tries a class on values of your own",
            ) from error

    def settle(self, groups: Ints) -> None:
        for group in groups.tolist():
            self._objects.pop(group, None)
        self._blocks.touch(groups)

    def size(self) -> int:
        return len(self._objects)

    @property
    def nbytes(self) -> int:
        return sum(len(saved(mine)) for mine in self._objects.values())

    def snapshot(self) -> dict[str, bytes]:
        def table(groups: Ints) -> dict[str, Any]:
            return {"state": pa.array([saved(self._objects[g]) for g in groups.tolist()], pa.large_binary())}

        return self._blocks.snapshot(np.array(sorted(self._objects), np.int64), table)

    def restore(self, parts: Mapping[str, bytes]) -> None:
        groups, columns = Blocks.read(parts)
        states = columns["state"].to_pylist() if len(groups) else []
        self._objects, self._blocks = {}, Blocks()
        for group, state in zip(groups.tolist(), states, strict=True):
            self._objects[group] = self._called(restored, self._make, state)


def saved(mine: Any) -> bytes:
    """The state of an object."""
    return pickle.dumps(mine.__getstate__(), 5)


def restored(make: Callable[[], Any], content: bytes) -> Any:
    """An object with a saved state."""
    mine, state = make(), pickle.loads(content)
    if hasattr(mine, "__setstate__"):
        mine.__setstate__(state)
        return mine
    attributes, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    for name, value in {**(attributes or {}), **(slots or {})}.items():
        setattr(mine, name, value)
    return mine
