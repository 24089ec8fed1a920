"""Set operations: UNION, EXCEPT and INTERSECT, of sets or (ALL) of bags, at every instant.

UNION ALL keeps no state: it lays both sides' changes side by side, and a row that leaves one side as it enters the
other is no change. Names and types are the left side's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from thalweg.contract.relation import Changes
from thalweg.language.algebra import SetOperation as Node
from thalweg.relate.bag import Bag
from thalweg.relate.kernels.bags import EXCEPT, EXCEPT_ALL, INTERSECT, INTERSECT_ALL, UNION
from thalweg.relate.rows.netting import cancelled, merged, nothing, selected

RULES = {
    ("union", False): UNION,
    ("except", False): EXCEPT,
    ("except", True): EXCEPT_ALL,
    ("intersect", False): INTERSECT,
    ("intersect", True): INTERSECT_ALL,
}


class SetOperation(Bag):
    def __init__(self, node: Node) -> None:
        super().__init__(node.schema, RULES[node.kind, node.all])

    def step(self, inputs: Sequence[Changes], frontier: int) -> Changes:
        return super().step([_as(i, self.schema) for i in inputs], frontier)


class UnionAll:
    def __init__(self, node: Node) -> None:
        self.schema = node.schema

    def step(self, inputs: Sequence[Changes], frontier: int) -> Changes:
        given = [_as(i, self.schema) for i in inputs if len(i.sign)]
        if not given:
            return nothing(self.schema)
        if len(given) == 1:
            return given[0]
        left, right = given
        sign, time = np.concatenate([left.sign, right.sign]), np.concatenate([left.time, right.time])
        both = Changes(pa.concat_tables([left.rows, right.rows]), sign, time)
        return cancelled(selected(both, merged([left.time, right.time])))

    def size(self) -> int:
        return 0

    def snapshot(self) -> dict[str, bytes]:
        return {}

    def restore(self, parts: Mapping[str, bytes]) -> None:
        pass


def _as(changes: Changes, schema: pa.Schema) -> Changes:
    """With the names and types of a schema."""
    if changes.rows.schema.equals(schema):
        return changes
    return Changes(changes.rows.rename_columns(schema.names).cast(schema), changes.sign, changes.time)
