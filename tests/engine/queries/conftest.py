"""How many random queries to run, from which seed on; the number compared is printed at the end.

pytest tests/engine/queries                                        3,000 cases
pytest tests/engine/queries --queries 1 --first-query 4711         one case again
python -m tests.engine.queries --cases 30000                       a long run, without pytest
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import Future

import pytest
from tests.engine.queries.check import Tally, chunks, under_way

CASES = 3_000
_tally = Tally()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("queries", "random whole queries")
    group.addoption("--queries", type=int, default=CASES, help="how many seeded queries are compared with DuckDB")
    group.addoption("--first-query", type=int, default=0, help="the seed of the first of them")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seeds" in metafunc.fixturenames:
        first = metafunc.config.getoption("first_query", 0)
        cases = metafunc.config.getoption("queries", CASES)
        metafunc.parametrize("seeds", chunks(first, cases), ids=lambda c: f"{c.start}-{c.stop - 1}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _tally.cases:
        terminalreporter.write_line(f"queries: {_tally}")


@pytest.fixture(scope="session")
def compared(request: pytest.FixtureRequest) -> Iterator[Mapping[range, Future[Tally]]]:
    """The chunks of seeded cases that this run asks for, being checked in one process per core."""
    specs = [getattr(item, "callspec", None) for item in request.session.items]
    wanted = [spec.params["seeds"] for spec in specs if spec is not None and "seeds" in spec.params]
    with under_way(wanted, os.cpu_count() or 1) as parts:
        yield parts


@pytest.fixture(scope="session")
def looked_at() -> Tally:
    return _tally
