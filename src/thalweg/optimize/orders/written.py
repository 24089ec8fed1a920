"""`written`: the order as the user wrote it. The yardstick of all others, and what `auto` falls back to."""

from __future__ import annotations

from dataclasses import dataclass

from thalweg.optimize.orders.single import SingleRoute


@dataclass
class Written(SingleRoute):
    """Never changes anything.

    >>> from thalweg.plan import Operator, Pipeline
    >>> Written(Pipeline("s", (Operator("a"), Operator("b")))).order
    (0, 1)
    """

    name = "written"

    def why(self) -> str:
        return "as written"
