"""The operator of a node: one function from the algebra to what runs it."""

from __future__ import annotations

from thalweg.contract.relation import Derived
from thalweg.errors import DefinitionError
from thalweg.language import algebra
from thalweg.language.settled import settled
from thalweg.relate.closing import Closing
from thalweg.relate.distinct import Distinct
from thalweg.relate.emit import Emit
from thalweg.relate.group import Group
from thalweg.relate.hop import Hop
from thalweg.relate.instants import Ticks
from thalweg.relate.keep import Keep
from thalweg.relate.match import Match
from thalweg.relate.membership import Membership
from thalweg.relate.over import Over
from thalweg.relate.project import Project
from thalweg.relate.restream import Restream
from thalweg.relate.setoperation import SetOperation, UnionAll
from thalweg.relate.single import Single


def operator(node: algebra.Node, ticks: Ticks = "us", per: int = 1, *, early: bool = False) -> Derived:
    """What runs a node; `ticks` is what the engine's times count, `per` how many of them a time that is a
    number or a date; `early` is for time windows and groups by them (`early.py`).

    A `Leaf` has none: its relation is `Living`, or `Arriving` below what reads results.
    """
    match node:
        case algebra.Project():
            return Project(node, ticks)
        case algebra.Keep():
            return Keep(node, ticks)
        case algebra.Distinct():
            return Distinct(node)
        case algebra.Group() if early:
            return Closing(node)
        case algebra.Group():
            return Group(node, final=bool(settled(node.child) & set(node.keys)))
        case algebra.Match(kind="semi" | "anti" | "mark", condition=None):
            return Membership(node)
        case algebra.Match():
            return Match(node)
        case algebra.SetOperation(kind="union", all=True):
            return UnionAll(node)
        case algebra.SetOperation():
            return SetOperation(node)
        case algebra.Single():
            return Single(node)
        case algebra.Hop():
            return Hop(node, ticks, per, early=early)
        case algebra.Over():
            return Over(node, ticks)
        case algebra.Restream():
            return Restream(node, ticks, per)
        case algebra.Emit():
            return Emit(node, ticks)
    raise DefinitionError(f"no operator runs {type(node).__name__}", hint="a Leaf is run by its join block")
