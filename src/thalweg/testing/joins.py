"""Random join cases: queries of two to ten inputs, data that joins get wrong, and arrivals in every order.

A case is drawn in two parts, the query (`joinquery.py`) and its rows and their history (`joinrows.py`). Invariant: the
seed alone decides a case, on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from thalweg.testing.chance import Chance, Seeded, shuffled, strategy
from thalweg.testing.joincase import JoinCase, can_join
from thalweg.testing.joinquery import draw_query
from thalweg.testing.joinrows import DataMaker

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

POLICIES = (
    "written",
    "lottery",
    "chaos",
    "auto",
    "agreedy",
    "cbr",
    "mesh",
    "independent",
    "sweep",
    "localswaps",
    "sbr",
)
LAYOUTS = ("hash", "bits", "mixed")
CACHES = ("chaos", "chaos", "chaos", "all", "off")
"""Most cases draw caches at random, also where the policy draws nothing."""


def make_case(
    seed: int, *, policies: Sequence[str] = POLICIES, layouts: Sequence[str] = LAYOUTS, inputs: int | None = None,
    long: bool = False, caches: Sequence[str] = CACHES,
) -> JoinCase:  # fmt: skip
    """The case of a seed, with two to six inputs or as many as are asked for, up to ten.

    A long case has hundreds of rows, windows that move on, and values whose number changes with time: policies that
    learn find something to learn.

    >>> make_case(7) == make_case(7)
    True
    >>> len(make_case(7, inputs=10).inputs)
    10
    """
    chance = Seeded(seed)
    count = inputs or chance.choice((3, 3, 4) if long else (2, 2, 3, 3, 3, 4, 4, 5, 6))
    return _draw(chance, seed, count, policies, layouts, caches, long=long)


def join_cases(
    *, policies: Sequence[str] = POLICIES, layouts: Sequence[str] = LAYOUTS, inputs: int = 6
) -> SearchStrategy[JoinCase]:
    """Hypothesis strategy of cases with two to `inputs` inputs."""
    return strategy(lambda chance: _draw(chance, 0, chance.integer(2, inputs), policies, layouts, CACHES))


def _draw(
    chance: Chance, seed: int, inputs: int, policies: Sequence[str], layouts: Sequence[str], caches: Sequence[str],
    *, long: bool = False,
) -> JoinCase:  # fmt: skip
    query = draw_query(chance, inputs, long=long)
    data = DataMaker(chance, query)
    sources = data.sources()
    buffers = (1, 3, 32, 1 << 14, 1 << 14, 1 << 14)
    case = JoinCase(
        seed=seed, shape="cross" if query.cross else query.shape, sources=sources, inputs=query.inputs,
        predicates=tuple(shuffled(chance, query.predicates)), select=query.select, steps=data.history(sources),
        policy=chance.choice(policies), layout=chance.choice(layouts), slice_rows=chance.choice((1, 3, 8, 1024)),
        buffer=chance.choice(buffers), cross=query.cross,
        caches=chance.choice(caches), cache_bytes=chance.choice((None, None, 1 << 12)),
    )  # fmt: skip
    if inputs > 4 or long:
        # Where many inputs match nearly all rows, a few partial results at a time would take half a minute.
        case = replace(case, buffer=max(case.buffer, 32))
    return replace(case, joined=True) if not query.cross and can_join(case) and chance.yes(0.3) else case
