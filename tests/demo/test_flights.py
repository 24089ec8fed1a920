"""The demo's flights: predicates see what they claim to see, the year is replayed in order, the written order's probe
work comes with the answer that every policy gives."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from thalweg.demo import flights
from thalweg.demo.written import probe_work

LOS_ANGELES, BOSTON = (33.94, -118.41), (42.36, -71.0)


@pytest.fixture(scope="module")
def year(tmp_path_factory):
    return flights.write(tmp_path_factory.mktemp("year"), files=4, every=60)


def moment(*parts):
    return int(datetime(*parts, tzinfo=UTC).timestamp())


def test_predicates():
    assert flights.far(*LOS_ANGELES)
    assert not flights.far(*BOSTON)
    assert flights.dark(moment(2013, 1, 6, 2), moment(2013, 1, 6, 7), *LOS_ANGELES)  # nine in the evening, New York
    assert not flights.dark(moment(2013, 6, 21, 15), moment(2013, 6, 21, 20), *LOS_ANGELES)
    assert flights.late(40, *LOS_ANGELES)
    assert not flights.late(25, *LOS_ANGELES)  # made up on the way
    assert flights.late(25, *BOSTON)
    assert flights.rough(20.0, None, 10.0)
    assert flights.rough(5.0, 30.0, 10.0)
    assert flights.rough(None, None, 0.5)
    assert not flights.rough(8.0, None, 10.0)


def test_the_year_is_cut_in_the_order_of_time(year):
    assert len(year.seasons) == year.batches == 2
    for name, ddl in flights.STREAMS.items():
        parts = [pq.read_table(p) for p in year.parts(name)]
        assert parts[0].column_names == [c.split()[0] for c in ddl.split(", ")]
        assert sum(p.num_rows for p in parts) == year.rows[name] > 300
        times = pa.concat_tables(parts)["ts"].cast(pa.int64()).to_pylist()
        assert times == sorted(times)
        ages = [p.stat().st_mtime for p in year.parts(name)]
        assert ages == sorted(set(ages))


def test_nothing_a_predicate_needs_is_missing(year):
    table = pa.concat_tables([pq.read_table(p) for p in year.parts("flights")])
    assert not any(table[c].null_count for c in table.column_names)
    assert pc.all(pc.greater(table["lands"], table["departs"])).as_py()


@pytest.mark.parametrize("policy", ["auto", "chaos"])
def test_orders_change_the_work_and_not_the_results(year, policy):
    written, other = (list(probe_work(year, 2, 3_600_000_000, p)) for p in ("written", policy))
    assert [results for _, results in written] == [results for _, results in other]
    assert written[-1][1] > 0
    assert written[-1][0] > 0
