"""Joins are taken as written: inputs that only a later one connects, and CROSS JOIN, before and after an outer join."""

from __future__ import annotations

from dataclasses import fields

import pytest
from tests.engine.queries.oracle import QueryOracle
from tests.engine.queries.verdict import verdict

from thalweg.language.query import Window
from thalweg.testing.chance import Seeded
from thalweg.testing.queries import made_source, made_steps
from thalweg.testing.querycase import JOINS, From, Joined, QueryCase, Select


class Written(QueryCase):
    """A case whose tree says what the oracle joins first, and whose text is written in another order."""

    @property
    def text(self) -> str:
        assert isinstance(self.query, Select)
        entry = {e.alias: self._entry(e) for e in self.query.entries}
        outer = next(j for j in self.query.joins if j.entry.alias == "z")
        last = self.query.joins[-1].on
        after = f"{JOINS[outer.kind]} {entry['z']} ON {outer.on[0]}"
        head = "SELECT x.v AS c0, y.v AS c1, u.v AS c2, result_time AS t FROM"
        if self.query.first.alias == "y":  # a comma binds less than JOIN
            return f"{head} {entry['x']}, {entry['y']} {after}, {entry['u']} WHERE {' AND '.join(last)}"
        return f"{head} {entry['x']} CROSS JOIN {entry['y']} {after} JOIN {entry['u']} ON {last[0]}"


def made(seed: int) -> Written:
    c = Seeded(seed)
    windows = [
        c.choice((Window("range", span=c.integer(0, 8)), Window("now"), Window("unbounded"), Window("rows", rows=2)))
        for _ in range(4)
    ]
    x, y, z, u = (From(alias, name, w) for alias, name, w in zip("xyzu", "abcd", windows, strict=True))
    kind = c.choice(("left", "left", "semi", "anti"))
    all_ = ("1 = 1",)
    if c.yes(0.5):
        first, joins = (
            y,
            (Joined(kind, z, ("y.k = z.k",)), Joined("inner", x, all_), Joined("inner", u, ("x.k = u.k", "y.g = u.g"))),
        )
    else:
        on, last = (f"{c.choice('xy')}.k = {other}.k" for other in "zu")
        first, joins = x, (Joined("inner", y, all_), Joined(kind, z, (on,)), Joined("inner", u, (last,)))
    span = c.integer(2, 24)
    sources = tuple(made_source(c, name, True, span, False) for name in "abcd")
    items = (("x.v", "c0"), ("y.v", "c1"), ("u.v", "c2"))
    case = QueryCase(
        seed, sources, Select(items, first, joins), tuple(made_steps(c, sources, span)), "chaos", timed=True
    )
    return Written(**{f.name: getattr(case, f.name) for f in fields(case)})


@pytest.mark.parametrize("chosen", [range(8), pytest.param(range(8, 308), marks=pytest.mark.long)], ids=["few", "many"])
def test_joins_are_taken_as_written(chosen: range) -> None:
    oracle = QueryOracle()
    for seed in chosen:
        case = made(seed)
        assert verdict(case, oracle) is None, (seed, case.text)
