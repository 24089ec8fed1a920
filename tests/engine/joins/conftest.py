"""How many random cases to run, from which seed on; and what was compared, said at the end.

pytest tests/engine/joins                              2,100 cases, of which a few are skipped as too large
pytest tests/engine/joins --cases 100000               the long run
pytest tests/engine/joins --cases 1 --first-case 4711  one case again
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context

import pytest
from tests.engine.joins.harness import Tally, check_seeds
from tests.engine.joins.oracle import DuckOracle

CASES = 2_100
CHUNK = 50
_tally = Tally()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("joins", "random join cases")
    group.addoption("--cases", type=int, default=CASES, help="how many seeded join cases are compared with DuckDB")
    group.addoption("--first-case", type=int, default=0, help="the seed of the first of them")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "chunk" in metafunc.fixturenames:
        first = metafunc.config.getoption("first_case", 0)
        cases = metafunc.config.getoption("cases", CASES)
        chunks = [range(s, min(s + CHUNK, first + cases)) for s in range(first, first + cases, CHUNK)]
        metafunc.parametrize("chunk", chunks, ids=lambda c: f"{c.start}-{c.stop - 1}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _tally.cases:
        terminalreporter.write_line(f"joins: {_tally}")


@pytest.fixture(scope="session")
def checked(request: pytest.FixtureRequest) -> Iterator[Mapping[range, Future[Tally]]]:
    """The chunks of seeded cases that this run asks for, under way in one process per core."""
    specs = [getattr(item, "callspec", None) for item in request.session.items]
    chunks = [spec.params["chunk"] for spec in specs if spec is not None and "chunk" in spec.params]
    pool = ProcessPoolExecutor(min(os.cpu_count() or 1, len(chunks)), get_context("spawn"))
    yield {chunk: pool.submit(check_seeds, chunk) for chunk in chunks}
    pool.shutdown(cancel_futures=True)


@pytest.fixture(scope="session")
def oracle() -> DuckOracle:
    return DuckOracle()


@pytest.fixture(scope="session")
def tally() -> Tally:
    return _tally
