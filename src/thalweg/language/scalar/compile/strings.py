"""Functions of texts whose options are constants, and LIKE."""

from __future__ import annotations

import re
from functools import partial

import pyarrow.types as pt
from sqlglot import exp

from thalweg.language.scalar.compile.compiler import Compiler, OnlySpark, Rules
from thalweg.language.scalar.expression import Apply, Constant, Expression
from thalweg.language.scalar.types import BOOL, INT32, TEXT

_TRIMS = {"": "trim", "BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}


def _trim(to: Compiler, node: exp.Trim) -> Expression:
    op = _TRIMS.get(str(node.args.get("position") or "").upper())
    if op is None or node.expression or node.args.get("collation"):
        raise OnlySpark(node)
    return Apply(TEXT, op, (to.text(node.this, node),))


def _length(to: Compiler, node: exp.Length) -> Expression:
    of = to.value(node.this)
    if not (pt.is_string(of.type) or pt.is_binary(of.type)):
        raise OnlySpark(node)
    return Apply(INT32, "length", (of,))


def _substring(to: Compiler, node: exp.Substring | exp.Left) -> Expression:
    left = isinstance(node, exp.Left)
    written = node.expression if left else node.args.get("length")
    start, length = 1 if left else _whole(to, node.args.get("start")), _whole(to, written)
    if start is None or start < 0 or (length is None and (left or written is not None)):
        raise OnlySpark(node)
    begin = max(0, start - 1)
    stop = None if length is None else begin + max(0, length)
    return Apply(TEXT, "substring", (to.text(node.this, node),), (begin, stop))


def _whole(to: Compiler, node: exp.Expr | None) -> int | None:
    """A written whole number."""
    if isinstance(node, exp.Literal | exp.Neg | exp.Paren):
        found = to.value(node)
        if isinstance(found, Constant) and pt.is_int32(found.type):
            return int(found.value)
    return None


def _search(op: str, to: Compiler, node: exp.Expr) -> Expression:
    """LIKE and its simpler forms, with a written pattern."""
    pattern = node.expression
    if not (isinstance(pattern, exp.Literal) and pattern.is_string):
        raise OnlySpark(node)
    wanted = _like_regex(str(pattern.this)) if op == "like" else str(pattern.this)
    if wanted is None:
        raise OnlySpark(node)
    return Apply(BOOL, op, (to.text(node.this, node),), (wanted,))


def _like_regex(pattern: str) -> str | None:
    """LIKE as an anchored RE2 pattern; None if Spark would refuse it."""
    parts = re.findall(r"\\[%_\\]|[^\\]", pattern, re.DOTALL)
    if sum(map(len, parts)) < len(pattern):
        return None
    wild = {"%": ".*", "_": "."}
    return r"(?s)\A" + "".join(wild.get(p) or re.escape(p[-1]) for p in parts) + r"\z"


def _concat(to: Compiler, node: exp.Expr) -> Expression:
    items = node.expressions if isinstance(node, exp.Concat) else (node.this, node.expression)
    return Apply(TEXT, "concat", tuple(to.text(e, node) for e in items))


RULES: Rules = {
    exp.Upper: lambda to, node: Apply(TEXT, "upper", (to.text(node.this, node),)),
    exp.Lower: lambda to, node: Apply(TEXT, "lower", (to.text(node.this, node),)),
    exp.Trim: _trim,
    exp.Length: _length,
    exp.Substring: _substring,
    exp.Left: _substring,
    exp.StartsWith: partial(_search, "startswith"),
    exp.EndsWith: partial(_search, "endswith"),
    exp.Contains: partial(_search, "contains"),
    exp.Like: partial(_search, "like"),
    exp.Concat: _concat,
    exp.DPipe: _concat,
}
