"""TPC-H's 22 queries bind with their text unchanged, over tables and with orders and lineitem as unbounded streams."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.language.tpch import QUERIES, STREAMS, endless, sources

from thalweg.errors import QueryError
from thalweg.language.algebra import Group, Leaf, Match
from thalweg.language.bind import bind
from thalweg.language.bind.times import streams


def test_there_are_22() -> None:
    assert len(QUERIES) == 22


@pytest.mark.parametrize("name", QUERIES)
def test_over_tables(name: str) -> None:
    bound = bind(QUERIES[name], sources(streaming=False))
    assert not streams(bound.root)
    assert bound.root.kind in ("results", "istream")
    assert bool(bound.root.order) == ("order by" in QUERIES[name])
    assert (bound.root.limit is not None) == ("limit" in QUERIES[name])


@pytest.mark.parametrize("name", QUERIES)
def test_over_streams(name: str) -> None:
    text = endless(QUERIES[name])
    bound = bind(text, sources(streaming=True))
    read = {i.source for i in streams(bound.root)}
    assert read == {s for s in STREAMS if s in text}
    assert {i.window.kind for i in streams(bound.root)} <= {"unbounded"}
    # What only static tables feed is answered once; everything else here is a relation that changes.
    assert bound.root.kind == ("changes" if read else "istream")
    for node in bound.root.walk():
        for child in node.children:
            assert len(set(child.schema.names)) == len(child.schema)


def test_order_by_is_refused_on_streams() -> None:
    with pytest.raises(QueryError, match="ORDER BY is not supported on streams"):
        bind(QUERIES["q03"], sources(streaming=True))


def test_types_are_those_of_spark() -> None:
    schema = bind(QUERIES["q01"], sources(streaming=False)).root.schema
    assert schema.field("sum_qty").type == pa.decimal128(25, 2)
    assert schema.field("sum_disc_price").type == pa.decimal128(38, 4)
    assert schema.field("avg_qty").type == pa.decimal128(19, 6)
    assert schema.field("count_order").type == pa.int64()


def test_correlated_minimum_is_a_group_and_a_match() -> None:
    root = bind(QUERIES["q02"], sources(streaming=False)).root
    assert [type(n).__name__ for n in root.walk()] == ["Leaf", "Leaf", "Group", "Project", "Match", "Project", "Emit"]
    match = next(n for n in root.walk() if isinstance(n, Match))
    assert match.kind == "inner"
    assert len(match.keys) == 2
    assert next(n for n in root.walk() if isinstance(n, Group)).keys == ("partsupp_2.ps_partkey",)


def test_a_view_that_is_used_twice_is_one_node() -> None:
    root = bind(endless(QUERIES["q15"]), sources(streaming=True)).root
    leaves = [n for n in root.walk() if isinstance(n, Leaf) and n.query.inputs[0].source == "lineitem"]
    assert len(leaves) == 2
    assert leaves[0] is leaves[1]
