"""Random whole queries on random data, under every policy, batched and restarted at random: the rows are DuckDB's."""

from __future__ import annotations

from tests.engine.queries.oracle import QueryOracle, at, history
from tests.engine.queries.verdict import bag

from thalweg.language.query import Window
from thalweg.testing.joincase import CaseSource, Push
from thalweg.testing.queries import TYPES, make_query
from thalweg.testing.querycase import Exists, From, QueryCase, Select


def test_seeded(seeds, compared, looked_at):
    looked_at.add(compared[seeds].result())


def _source(name: str, *rows: tuple) -> CaseSource:
    import pyarrow as pa

    schema = pa.schema([("ts", pa.int64()), *TYPES.items()])
    return CaseSource(name, schema, tuple((t, k, "", v, 0.5) for t, k, v in rows), "ts", "us")


def _case(query: Select, *sources: CaseSource) -> QueryCase:
    steps = tuple(Push(s.name, tuple(range(len(s.rows)))) for s in sources)
    return QueryCase(0, sources, query, steps, "auto")


def test_the_oracle_of_histories_is_the_definition():
    """An order without a payment within three instants, and one with: the times are the order's and the payment's."""
    oracle = QueryOracle()
    orders, payments = _source("a", (1, 7, 1), (2, 8, 2)), _source("b", (3, 7, 5), (6, 8, 6), (4, 7, 9))
    paid = Select((("1", "one"),), From("y", "b", Window("now")), where=("x.k = y.k",))
    for negated, wanted in ((False, {(7, 1, 5, 3): 1}), (True, {(8, 2, 6, 2): 1})):
        query = Select((("x.k", "k"),), From("x", "a", Window("range", span=3)), where=(Exists(paid, negated),))
        case = _case(query, orders, payments)
        assert bag(oracle.ask(history(query), oracle.tables(case))) == wanted


def test_the_oracle_of_instants_is_the_definition():
    oracle = QueryOracle()
    query = Select((("x.k", "k"),), From("x", "a", Window("rows", rows=2)))
    case = _case(query, _source("a", (1, 7, 1), (2, 8, 2), (2, 9, 2), (5, 7, 0)))
    found = {t: bag(oracle.ask(at(case, t), oracle.tables(case))) for t in (0, 1, 2, 5)}
    assert found == {0: {}, 1: {(7,): 1}, 2: {(8,): 1, (9,): 1}, 5: {(9,): 1, (7,): 1}}


def test_a_seed_decides_a_case():
    texts = [make_query(seed).text for seed in range(300)]
    assert texts == [make_query(seed).text for seed in range(300)]
    words = ("LEFT JOIN", "FULL OUTER", "SEMI", "ANTI", "NOT EXISTS", "NOT IN", "OR ", "GROUP BY", "HAVING", "DISTINCT",
             "UNION ALL", "EXCEPT", "INTERSECT", "ISTREAM", "DSTREAM", "RSTREAM", "SLIDE", "PARTITION BY", "ROWS", "NOW",
             "UNBOUNDED", "LIMIT")  # fmt: skip
    assert [word for word in words if not any(word in text for text in texts)] == []
