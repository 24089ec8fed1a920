"""Can a piece of SQL raise? If not, it may move before a Python predicate without causing new errors.

In Spark's ANSI mode casts, arithmetic, look-ups and functions can raise on some rows. The answer is conservative: True
unless the text consists only of comparisons between values of one family, LIKE, IN, BETWEEN, IS NULL and a few total
string functions.
"""

from __future__ import annotations

from collections.abc import Mapping

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

_TOTAL = (exp.Lower, exp.Upper, exp.Length, exp.Trim, exp.StartsWith, exp.EndsWith)
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.Between, exp.In)


def may_raise(sql: str, families: Mapping[str, str]) -> bool:
    """Whether evaluating the text could raise on some row. `families`: each column is a number, string, ...

    >>> may_raise("dst LIKE '10.%' AND size > 100", {"dst": "string", "size": "number"})
    False
    >>> may_raise("CAST(dst AS INT) > 1", {"dst": "string"})
    True
    >>> may_raise("dst > 100", {"dst": "string"})  # an implicit cast
    True
    """
    try:
        tree = sqlglot.parse_one(f"SELECT 1 FROM t WHERE {sql}", read="spark").find(exp.Where)
    except SqlglotError:
        return True
    return tree is None or not _total(tree.this, {name.lower(): family for name, family in families.items()})


def _total(node: exp.Expr, families: Mapping[str, str]) -> bool:
    if isinstance(node, exp.Paren | exp.Not):
        return _total(node.this, families)
    if isinstance(node, exp.And | exp.Or):
        return _total(node.left, families) and _total(node.right, families)
    if isinstance(node, exp.Boolean | exp.Null):
        return True
    if isinstance(node, exp.Is):
        return _family(node.this, families) is not None
    if isinstance(node, _COMPARISONS):
        return not node.args.get("query") and _same_family(node, families)
    if isinstance(node, exp.Like | exp.ILike):
        return _same_family(node, families) and _family(node.this, families) == "string"
    return isinstance(node, exp.Column) and _family(node, families) == "boolean"


def _same_family(node: exp.Expr, families: Mapping[str, str]) -> bool:
    found = {_family(n, families) for n in node.iter_expressions()} - {"null"}
    return None not in found and len(found) <= 1


def _family(node: exp.Expr, families: Mapping[str, str]) -> str | None:
    """number, string, boolean, another type's name, or null; None if it is not known to be harmless."""
    if isinstance(node, exp.Paren) or (isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal)):
        return _family(node.this, families)
    if isinstance(node, exp.Literal):
        return "string" if node.is_string else "number"
    if isinstance(node, exp.Null):
        return "null"
    if isinstance(node, exp.Boolean):
        return "boolean"
    if isinstance(node, exp.Column):
        return None if node.table else families.get(node.name.lower())
    if isinstance(node, _TOTAL) and all(_family(c, families) == "string" for c in node.iter_expressions()):
        return "number" if isinstance(node, exp.Length) else "string"
    return None
