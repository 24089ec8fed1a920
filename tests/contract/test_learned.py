"""What policies learned, kept: taken up by the policy and the version that wrote it, and by no other.

The shape of each policy's record is kept in `fixtures/records.txt`; `python -m tests.contract.test_learned` writes it.
"""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from thalweg import optimize
from thalweg.contract import learned
from thalweg.optimize.orders.single import SingleRoute
from thalweg.plan import Operator, Pipeline

SHAPES = Path(__file__).parent / "fixtures" / "records.txt"
FILTERS = Pipeline("s", (Operator("a"), Operator("b"), Operator("c")))
STEMS = Pipeline("s", (Operator("a"), Operator("r", "stem"), Operator("t", "stem", near=frozenset({1}))))


def shape(value: Any) -> str:
    """A record without its values: what it is made of, and how many of it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k} {shape(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        runs = [(kind, len(list(same))) for kind, same in groupby(map(shape, value))]
        return "[" + ", ".join(kind if n == 1 else f"{n} x {kind}" for kind, n in runs) + "]"
    return "."


def shapes() -> str:
    """Of new policies: what they write then depends on nothing that they decide."""
    lines = [f"format {learned.FORMAT}"]
    for kind, pipeline in (("filters", FILTERS), ("stems", STEMS)):
        for name in optimize.names():
            record = json.loads(json.dumps(optimize.make(name, pipeline, 1).snapshot()))
            lines.append(f"{name} of {kind}: {shape(_without_random(record))}")
    return "\n".join(lines) + "\n"


def _without_random(record: Any) -> Any:
    """NumPy's own part, which is not ours to number."""
    if isinstance(record, dict):
        return {k: "" if k == "random" else _without_random(v) for k, v in record.items()}
    return record


def test_a_record_of_another_shape_has_another_format() -> None:
    kept, made = SHAPES.read_text().splitlines(), shapes().splitlines()
    changed = [line for line in made[1:] if line not in kept]
    if changed:
        assert made[0] != kept[0], f"raise FORMAT in optimize/learned.py: policies write otherwise now: {changed}"
    assert made == kept, "write fixtures/records.txt anew: python -m tests.contract.test_learned"


@pytest.mark.parametrize("name", optimize.names())
def test_a_policy_takes_up_its_own_record(name: str) -> None:
    policy, fresh = (optimize.make(name, FILTERS, seed) for seed in (1, 2))
    kept = json.loads(json.dumps(learned.record(policy)))
    assert fresh.snapshot() != policy.snapshot()
    assert learned.take_up(fresh, kept) == []
    assert fresh.snapshot() == policy.snapshot()


@pytest.mark.parametrize("older", [{}, {"format": learned.FORMAT - 1}, {"format": learned.FORMAT + 1}])
def test_a_record_of_another_version_is_not_read_and_that_is_told(older: dict[str, int]) -> None:
    policy = optimize.make("auto", STEMS, 1)
    before = policy.snapshot()
    (event,) = learned.take_up(policy, {**older, "policy": "auto", "order": [0, 2, 1]})
    assert (event.kind, event.change) == ("begin anew", None)
    assert f"format {older.get('format', 0)}, this version reads {learned.FORMAT}" in str(event.why)
    assert policy.snapshot() == before


def test_a_policy_that_is_asked_for_instead_of_another_begins_without_a_word() -> None:
    policy = optimize.make("agreedy", FILTERS, 1)
    before = policy.snapshot()
    assert learned.take_up(policy, learned.record(optimize.make("auto", FILTERS, 2))) == []
    assert policy.snapshot() == before


def test_a_policy_of_another_package_numbers_its_records_itself() -> None:
    class Theirs(SingleRoute):
        name = "theirs"
        format = 7

    class Newer(Theirs):
        format = 8

    kept = learned.record(Theirs(FILTERS, 1))
    assert learned.take_up(Theirs(FILTERS, 2), kept) == []
    assert "format 7, this version reads 8" in str(learned.take_up(Newer(FILTERS, 2), kept)[0].why)


if __name__ == "__main__":
    SHAPES.write_text(shapes())
