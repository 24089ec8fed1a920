"""Distinct: every row once, as long as it lives at all."""

from __future__ import annotations

from thalweg.language.algebra import Distinct as Node
from thalweg.relate.bag import Bag
from thalweg.relate.kernels.bags import DISTINCT


class Distinct(Bag):
    def __init__(self, node: Node) -> None:
        super().__init__(node.schema, DISTINCT)
