"""Queries and their outcomes as text: fixtures/*.sql pair each query with what was understood, or with the error.

After a deliberate change, `python tests/language/test_fixtures.py` rewrites the outcomes; read the difference.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from thalweg.errors import QueryError
from thalweg.language import Source
from thalweg.language.bind import bind
from thalweg.language.show import show
from thalweg.language.text.render import rendered

FIXTURES = Path(__file__).parent / "fixtures"


def cases(path: Path) -> list[tuple[str, str, str, str]]:
    """Name, query, gives or fails, what."""
    found = []
    for block in re.split(r"^-- case: ", path.read_text(), flags=re.M)[1:]:
        name, _, body = block.partition("\n")
        sql, verdict, what = re.split(r"^-- (gives|fails)\n", body, flags=re.M)
        found.append((name, sql.rstrip("\n"), verdict, what.rstrip("\n")))
    return found


def outcome(sql: str, sources: Mapping[str, Source], functions: Mapping[str, Callable[..., Any]]) -> tuple[str, str]:
    try:
        bound = bind(sql, sources, functions)
        return "gives", rendered(bound.plain) if bound.plain is not None else show(bound)
    except QueryError as error:
        return "fails", str(error)


ALL = [pytest.param(*c, id=f"{p.stem}: {c[0]}") for p in sorted(FIXTURES.glob("*.sql")) for c in cases(p)]


@pytest.mark.parametrize(("name", "sql", "verdict", "what"), ALL)
def test_fixture(
    name: str, sql: str, verdict: str, what: str, sources: dict[str, Source], functions: dict[str, Callable[..., Any]]
) -> None:
    assert outcome(sql, sources, functions) == (verdict, what), name


def test_there_are_fixtures() -> None:
    assert len(ALL) > 100


if __name__ == "__main__":
    import runpy

    given = runpy.run_path(str(Path(__file__).parent / "conftest.py"))
    world = (given["sources"].__wrapped__(), given["functions"].__wrapped__())
    for path in sorted(FIXTURES.glob("*.sql")):
        blocks = []
        for name, sql, _, _ in cases(path):
            verdict, what = outcome(sql, *world)
            blocks.append(f"-- case: {name}\n{sql}\n-- {verdict}\n{what}\n")
        path.write_text("\n".join(blocks))
