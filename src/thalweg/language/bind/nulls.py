"""Can a condition be true where some inputs are all NULL? If not, an outer join whose rows it filters is an inner one.

The classical rule: an expression is strict if it is NULL wherever one of its columns is, and a condition rejects NULLs
if it is then never true. Conservative: what is not known to be strict is not.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sqlglot import exp

from thalweg.language.scalar.compile import Resolved

_STRICT = (
    exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.IntDiv,
    exp.Neg, exp.Like, exp.Paren, exp.Upper, exp.Lower, exp.Length, exp.Substring, exp.Trim, exp.Cast, exp.Abs,
    exp.Year, exp.Month, exp.Day, exp.Extract, exp.TsOrDsToDate,
)  # fmt: skip


class Nulls:
    """Asks of the columns of some inputs, by alias."""

    def __init__(self, resolved: Mapping[int, Resolved], aliases: Collection[str]) -> None:
        self._resolved = resolved
        self._aliases = aliases

    def rejected_by(self, node: exp.Expr) -> bool:
        """Whether a condition is never true where all the columns are NULL."""
        node = node.unnest()
        if isinstance(node, exp.And):
            return self.rejected_by(node.this) or self.rejected_by(node.expression)
        if isinstance(node, exp.Or):
            return self.rejected_by(node.this) and self.rejected_by(node.expression)
        if isinstance(node, exp.Not):
            inner = node.this.unnest()
            if isinstance(inner, exp.Is):
                return isinstance(inner.expression, exp.Null) and self._strict(inner.this)
            return self._strict(inner)
        return self._strict(node)

    def _strict(self, node: exp.Expr) -> bool:
        found = self._resolved.get(id(node))
        if found is not None:
            return found.column.input in self._aliases
        if isinstance(node, exp.Between | exp.In):
            return self._strict(node.this) and not node.args.get("query")
        if isinstance(node, exp.Cast) and node.args.get("safe"):
            return self._strict(node.this)
        return isinstance(node, _STRICT) and any(self._strict(child) for child in node.iter_expressions())
