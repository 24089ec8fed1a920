"""Functions of texts whose options are constants, and LIKE."""

from __future__ import annotations

import re

import pyarrow.types as pt
from sqlglot import exp

from thalweg.language.scalar.compile.compiler import Compiler, OnlySpark, Rule, Rules
from thalweg.language.scalar.expression import Constant, Expression
from thalweg.language.scalar.strings import Concat, Matches, Text
from thalweg.language.scalar.types import BOOL, INT32, TEXT

_TRIMS = {"": "trim", "BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}


def _trim(to: Compiler, node: exp.Trim) -> Expression:
    op = _TRIMS.get(str(node.args.get("position") or "").upper())
    if op is None or node.expression or node.args.get("collation"):
        raise OnlySpark(node)
    return Text(TEXT, op, to.text(node.this, node))


def _length(to: Compiler, node: exp.Length) -> Expression:
    of = to.value(node.this)
    if not (pt.is_string(of.type) or pt.is_binary(of.type)):
        raise OnlySpark(node)
    return Text(INT32, "length", of)


def _substring(to: Compiler, node: exp.Substring) -> Expression:
    start, length = _whole(to, node.args.get("start")), _whole(to, node.args.get("length"))
    if start is None or start < 0 or (node.args.get("length") is not None and length is None):
        raise OnlySpark(node)
    begin = max(0, start - 1)
    stop = None if length is None else begin + max(0, length)
    return Text(TEXT, "substring", to.text(node.this, node), (begin, stop))


def _left(to: Compiler, node: exp.Left) -> Expression:
    length = _whole(to, node.expression)
    if length is None:
        raise OnlySpark(node)
    return Text(TEXT, "substring", to.text(node.this, node), (0, max(0, length)))


def _whole(to: Compiler, node: exp.Expr | None) -> int | None:
    """A written whole number."""
    if isinstance(node, exp.Literal | exp.Neg | exp.Paren):
        found = to.value(node)
        if isinstance(found, Constant) and pt.is_int32(found.type):
            return int(found.value)
    return None


def _search(op: str) -> Rule:
    def rule(to: Compiler, node: exp.Expr) -> Expression:
        wanted = _written(node, node.expression)
        return Text(BOOL, op, to.text(node.this, node), (wanted,))

    return rule


def _like(to: Compiler, node: exp.Like) -> Expression:
    regex = _like_regex(_written(node, node.expression), "\\")
    if regex is None:
        raise OnlySpark(node)
    return Matches(BOOL, to.text(node.this, node), regex)


def _written(node: exp.Expr, text: exp.Expr) -> str:
    """A text literal."""
    if not (isinstance(text, exp.Literal) and text.is_string):
        raise OnlySpark(node)
    return str(text.this)


def _like_regex(pattern: str, escape: str) -> str | None:
    """LIKE as RE2; None if Spark would refuse the pattern."""
    out: list[str] = []
    i = 0
    while i < len(pattern):
        c = pattern[i]
        if c == escape:
            i += 1
            if i == len(pattern) or pattern[i] not in ("%", "_", escape):
                return None
            out.append(re.escape(pattern[i]))
        else:
            out.append(".*" if c == "%" else "." if c == "_" else re.escape(c))
        i += 1
    return r"(?s)\A" + "".join(out) + r"\z"


RULES: Rules = {
    exp.Upper: lambda to, node: Text(TEXT, "upper", to.text(node.this, node)),
    exp.Lower: lambda to, node: Text(TEXT, "lower", to.text(node.this, node)),
    exp.Trim: _trim,
    exp.Length: _length,
    exp.Substring: _substring,
    exp.Left: _left,
    exp.StartsWith: _search("startswith"),
    exp.EndsWith: _search("endswith"),
    exp.Contains: _search("contains"),
    exp.Like: _like,
    exp.Concat: lambda to, node: Concat(TEXT, tuple(to.text(e, node) for e in node.expressions)),
    exp.DPipe: lambda to, node: Concat(TEXT, (to.text(node.this, node), to.text(node.expression, node))),
}
