"""Where queries are split, and where not."""

from __future__ import annotations

import pyarrow as pa
import pytest

from thalweg.language.algebra import Group, Hop, Leaf
from thalweg.language.bind import bind
from thalweg.language.query import Source
from thalweg.optimize.placement import choose
from thalweg.optimize.split import split

SCHEMA = pa.schema({"ts": pa.timestamp("us", "UTC"), "k": pa.int64(), "g": pa.int64(), "w": pa.string()})
SOURCES = {name: Source(SCHEMA, time="ts") for name in "abc"}
JOIN = "FROM a [RANGE 1 MINUTE] JOIN b [RANGE 1 MINUTE] ON a.k = b.k"


def found(text, cells=8):
    return split(bind(text, SOURCES, computed=True), cells, finite=False)


@pytest.mark.parametrize(
    ("text", "column"),
    [
        (f"SELECT upper(a.w) AS w, count(*) AS n {JOIN} GROUP BY upper(a.w)", "upper(a.w)"),
        (f"SELECT a.g, b.w, count(*) AS n {JOIN} GROUP BY a.g, b.w", "a.g"),
        (f"SELECT DISTINCT a.g + b.g AS x {JOIN}", "x"),
        (f"SELECT count(*) AS n {JOIN}", None),
        (
            f"SELECT x, count(*) AS n FROM (SELECT a.g + b.g AS x, a.w {JOIN}) GROUP BY x HAVING count(*) > 2",
            "query_1.x",
        ),
        # The second group has lost the first one's key: nothing that both agree on.
        (f"SELECT n, count(*) AS m FROM (SELECT a.g, count(*) AS n {JOIN} GROUP BY a.g) GROUP BY n", None),
        ("SELECT upper(w) AS w, count(*) AS n FROM a [RANGE 1 MINUTE] GROUP BY upper(w)", "upper(a.w)"),
    ],
)
def test_it_is_split_where_that_spreads_work(text, column):
    at = found(text)
    assert at is not None
    assert at.column == column
    assert not at.placed.copied
    assert ("one cell takes" in at.why) == (column is None)


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT a.k, count(*) AS n {JOIN} GROUP BY a.k",
        "SELECT count(*) AS n FROM a [RANGE 1 MINUTE]",
        "SELECT a.g, count(*) AS n FROM a [RANGE 1 MINUTE] GROUP BY a.g",
        f"SELECT a.k, b.g {JOIN}",
        "SELECT a.k AS x FROM a [RANGE 1 MINUTE] LEFT JOIN b [RANGE 1 MINUTE] ON a.g < b.g",
        "SELECT g, max(w) AS m FROM a [ROWS 7] GROUP BY g",
    ],
)
def test_it_is_left_whole(text):
    assert found(text) is None


def test_copies_are_cheaper_in_few_cells():
    """Of two streams one is copied: c + 1 rows travel against 3 * 2."""
    text = f"SELECT a.g, count(*) AS n {JOIN} GROUP BY a.g"
    assert found(text, cells=5) is None
    assert found(text, cells=6) is not None
    assert found(f"SELECT count(*) AS n {JOIN}", cells=1) is None


def test_what_looks_at_all_rows_is_in_one_place():
    """A NULL in NOT IN concerns every row, and so does any change under RSTREAM."""
    of = bind(
        "SELECT a.k AS x FROM a [NOW] WHERE a.k NOT IN (SELECT b.g FROM b [RANGE 1 MINUTE])", SOURCES, computed=True
    )
    assert choose(of, finite=False)[0] is None
    text = f"RSTREAM(SELECT a.k, count(*) AS n {JOIN} GROUP BY a.k)"
    for every, finite, whole in (
        (" EVERY 5 SECONDS", False, True),
        (" EVERY 5 SECONDS", True, False),
        ("", False, False),
    ):
        of = bind(text + every, SOURCES, computed=True)
        assert (choose(of, finite=finite)[0] is not None) == whole
        at = split(of, 8, finite=finite)
        assert (at is None) == whole
        assert at is None or at.column is None


@pytest.mark.parametrize(
    ("text", "by"),
    [
        ("ISTREAM(SELECT a.g FROM a [NOW])", "g"),
        ("SELECT a.g, a.k FROM a [RANGE 1 MINUTE] GROUP BY a.g, a.k, a.w", "g"),
        ("ISTREAM(SELECT a.g + 1 AS x FROM a [NOW])", None),
        ("SELECT count(*) AS n FROM a [RANGE 1 MINUTE] GROUP BY a.g", None),
        ("SELECT a.g + 1 AS x FROM a GROUP BY a.g + 1, window(result_time, '1 minute')", None),
        ("SELECT x.g + 1 AS y FROM ISTREAM(SELECT a.g FROM a [NOW]) [UNBOUNDED] AS x", "g"),
    ],
)
def test_equal_rows_come_out_of_one_cell(text, by):
    """One may enter while the other leaves: then nothing has changed."""
    placed, _ = choose(bind(text, SOURCES, computed=True), finite=False)
    assert (None if placed is None else placed.columns[0, "a"]) == by


def test_a_window_of_time_is_below_its_groups():
    at = found(
        f"SELECT window(result_time, '10 seconds') AS at, a.g + b.g AS x, count(*) AS n {JOIN} "
        "GROUP BY window(result_time, '10 seconds'), a.g + b.g"
    )
    assert at is not None
    kinds = [type(node) for node in at.node.walk()]
    assert kinds[0] is Leaf
    assert Hop in kinds
    assert kinds[-1] is Group
    assert "partial groups" in at.why


@pytest.mark.parametrize(("aggregate", "partial"), [("count(*)", True), ("min(a.w)", True), ("sum(a.g)", True),
                                                    ("count(DISTINCT a.g)", False), ("avg(a.g)", False),
                                                    ("sum(a.g / 2.0)", False)])  # fmt: skip
def test_only_what_adds_up_exactly_is_grouped_twice(aggregate, partial):
    at = found(
        f"SELECT window(result_time, '10 seconds') AS at, {aggregate} AS x {JOIN} GROUP BY window(result_time, '10 seconds')"
    )
    assert at is not None
    assert ("partial groups" in at.why) == partial


def test_an_aggregate_of_the_users_own_is_not_taken_for_a_built_in_one_of_its_name():
    class Rows:
        def __init__(self):
            self.n = 0

        def add(self, value):
            self.n += 1

        def remove(self, value):
            self.n -= 1

        def value(self) -> int:
            return self.n

        def merge(self, other):
            self.n += other.n

    text = f"SELECT window(result_time, '10 seconds') AS at, max(a.g) AS x {JOIN} GROUP BY window(result_time, '10 seconds')"
    at = split(bind(text, SOURCES, {"max": Rows}, computed=True), 8, finite=False)
    assert at is not None
    assert "partial groups" not in at.why
