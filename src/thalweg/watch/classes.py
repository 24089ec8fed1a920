"""Classes of tuples that have routes of their own, as text for a terminal and as HTML for a notebook: each with its share, its
work and its route, how tuples are told apart, and a picture of them on their way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from thalweg.watch.sankey import sankey
from thalweg.watch.summary import ClassSummary


@dataclass(frozen=True)
class Classes:
    """The classes of one input's tuples."""

    each: Sequence[ClassSummary]
    operators: Sequence[str]
    """Their names."""
    tree: str
    work: Callable[[float], str]
    """How work is told."""

    def text(self) -> list[str]:
        width = max(len(c.label) for c in self.each)
        lines = [f"{'class':<{width}}  {'share':>5}  {'work a tuple':>12}  route"]
        lines += [f"{c.label:<{width}}  {c.share:>5.0%}  {self._work(c):>12}  {self._route(c)}" for c in self.each]
        if self.tree:
            lines += ["", "told apart by", *(f"  {line}" for line in self.tree.splitlines())]
        return lines

    def html(self, *, picture: bool = True) -> str:
        rows = "".join(
            f"<tr><td style='text-align:left'>{escape(c.label)}</td><td>{c.share:.0%}</td><td>{self._work(c)}</td>"
            f"<td style='text-align:left'>{escape(self._route(c))}</td></tr>"
            for c in self.each
        )
        tree = f"<pre style='margin:.5em 0'>{escape(self.tree)}</pre>" if self.tree else ""
        drawn = sankey(self.each, self.operators) if picture else ""
        return (
            "<table><thead><tr><th style='text-align:left'>class</th><th>share</th><th>work a tuple</th>"
            f"<th style='text-align:left'>route</th></tr></thead><tbody>{rows}</tbody></table>{tree}{drawn}"
        )

    def _work(self, c: ClassSummary) -> str:
        return "–" if c.estimate is None else self.work(c.estimate)

    def _route(self, c: ClassSummary) -> str:
        return " → ".join(self.operators[op] for op in c.route)
