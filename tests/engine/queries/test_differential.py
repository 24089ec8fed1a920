"""Random whole queries on random data, under every policy, batched and restarted at random: the rows are DuckDB's."""

from __future__ import annotations

from tests.engine.queries.check import WORDS, words_of
from tests.engine.queries.oracle import QueryOracle, at, history
from tests.engine.queries.verdict import bag

from thalweg.language.query import Window
from thalweg.testing.joincase import CaseSource, Push
from thalweg.testing.queries import TYPES, make_query
from thalweg.testing.querycase import Exists, From, QueryCase, Said, Select


def test_seeded(seeds, compared, looked_at):
    looked_at.add(compared[seeds].result())


def _source(name: str, *rows: tuple) -> CaseSource:
    import pyarrow as pa

    schema = pa.schema([("ts", pa.int64()), *TYPES.items()])
    return CaseSource(name, schema, tuple((t, k, "", v, 0.5, None) for t, k, v in rows), "ts", "us")


def test_the_oracle_of_time_windows_and_frames_is_the_definition():
    oracle = QueryOracle()
    case_rows = _source("a", (1, 7, 1), (4, 7, 2), (5, 8, 4))
    first = From("x", "a", Window("unbounded"))
    ends = Said("window.end", "until_")
    hops = Select((("sum(x.v)", "s"), (ends, "e")), first, aggregates=True, hop=(4, 2))
    frame = Said("", "sum(x.v) OVER (ORDER BY t_ RANGE BETWEEN 3 PRECEDING AND CURRENT ROW)")
    for query, wanted in (
        (hops, {(1, 2): 1, (1, 4): 1, (6, 6): 1, (6, 8): 1}),
        (Select((("x.k", "k"), (frame, "s")), first, frames=True), {(7, 1): 1, (7, 3): 1, (8, 6): 1}),
    ):
        case = _case(query, case_rows)
        assert bag(row[:-3] for row in oracle.ask(history(query), oracle.tables(case))) == wanted
        assert bag(oracle.ask(at(case, 9), oracle.tables(case))) == wanted


def test_the_oracle_of_emitted_streams_is_the_definition():
    """Rows stay for three instants: what leaves, leaves at 5, 6 and 9."""
    oracle = QueryOracle()
    inner = Select((("x.k", "k"),), From("x", "a", Window("range", span=3)))
    query = Select((("y.k", "k"),), From("y", window=Window("now"), query=inner, stream="dstream"))
    case = _case(query, _source("a", (1, 7, 1), (2, 7, 2), (5, 8, 4)))
    found = oracle.ask(history(query), oracle.tables(case))
    assert sorted((row[0], row[-1]) for row in found) == [(7, 5), (7, 6), (8, 9)]


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
    texts = [make_query(seed).text for seed in range(600)]
    assert texts == [make_query(seed).text for seed in range(600)]
    found = {word for text in texts for word in words_of(text)}
    assert [word for word in WORDS if word not in found] == []
