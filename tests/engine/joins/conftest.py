"""How many random cases to run, from which seed on; the number compared is printed at the end.

pytest tests/engine/joins                              2,100 cases, a few of them skipped as too large
pytest tests/engine/joins --cases 1 --first-case 4711  one case again
python -m tests.engine.joins --cases 100000            a long run, without pytest
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import Future

import pytest
from tests.engine.joins.check import Tally, chunks, under_way
from tests.engine.joins.oracle import DuckOracle

CASES = 2_100
_tally = Tally()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("joins", "random join cases")
    group.addoption("--cases", type=int, default=CASES, help="how many seeded join cases are compared with DuckDB")
    group.addoption("--first-case", type=int, default=0, help="the seed of the first of them")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "chunk" in metafunc.fixturenames:
        first = metafunc.config.getoption("first_case", 0)
        cases = metafunc.config.getoption("cases", CASES)
        metafunc.parametrize("chunk", chunks(first, cases), ids=lambda c: f"{c.start}-{c.stop - 1}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _tally.cases:
        terminalreporter.write_line(f"joins: {_tally}")


@pytest.fixture(scope="session")
def checked(request: pytest.FixtureRequest) -> Iterator[Mapping[range, Future[Tally]]]:
    """The chunks of seeded cases that this run asks for, being checked in one process per core."""
    specs = [getattr(item, "callspec", None) for item in request.session.items]
    wanted = [spec.params["chunk"] for spec in specs if spec is not None and "chunk" in spec.params]
    with under_way(wanted, os.cpu_count() or 1) as parts:
        yield parts


@pytest.fixture(scope="session")
def oracle() -> DuckOracle:
    return DuckOracle()


@pytest.fixture(scope="session")
def tally() -> Tally:
    return _tally
