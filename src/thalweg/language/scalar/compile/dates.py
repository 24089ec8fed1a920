"""Dates: moved by days, months and years, and their parts. Without a time zone nothing depends on the session.

A zoned timestamp shows another day in another zone, so its parts are Spark's.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

import pyarrow.types as pt
from sqlglot import exp

from thalweg.language.scalar.calendar import Moved
from thalweg.language.scalar.checked import Arithmetic
from thalweg.language.scalar.compile.compiler import Compiler, OnlySpark, Rules
from thalweg.language.scalar.expression import Apply, Constant, Expression, Frame, Unanswerable
from thalweg.language.scalar.types import INT32, is_plain_time

_DAYS = {"DAY": 1, "DAYS": 1}
_MONTHS = {"MONTH": 1, "MONTHS": 1, "YEAR": 12, "YEARS": 12}
_PARTS = {"YEAR": "year", "QUARTER": "quarter", "MONTH": "month", "DAY": "day", "HOUR": "hour", "MINUTE": "minute"}
_OF_DAY = ("hour", "minute")


def moved(op: Literal["+", "-", "*"], to: Compiler, node: exp.Expr) -> Expression | None:
    """A date plus or minus a written interval of whole days, months or years; None for any other arithmetic."""
    date, length = node.this, node.expression
    if op == "+" and isinstance(date.unnest(), exp.Interval):
        date, length = length, date
    length = length.unnest()
    if op == "*" or not isinstance(length, exp.Interval):
        return None
    of = to.value(date)
    if not pt.is_date(of.type):
        return None
    unit = length.args.get("unit")
    word = unit.name.upper() if isinstance(unit, exp.Var) else ""
    amount = length.this
    negative = isinstance(amount, exp.Neg)
    digits = str((amount.this if negative else amount).this) if isinstance(amount, exp.Neg | exp.Literal) else ""
    if not digits.isdecimal() or word not in {**_DAYS, **_MONTHS}:
        raise OnlySpark(node)
    count = int(digits) * (-1 if negative != (op == "-") else 1)
    if word in _DAYS:
        found: Expression = Arithmetic(of.type, "+", (of, Constant(INT32, count)))
    else:
        found = Moved(of.type, of, count * _MONTHS[word])
    return _folded(found) if isinstance(of, Constant) else found


def _folded(expression: Expression) -> Expression:
    """A constant expression as the constant it gives."""
    try:
        return Constant(expression.type, expression.array(Frame({}, 1))[0].as_py())
    except Unanswerable:
        return expression  # it raises on every row, as Spark would


def _part(part: str, to: Compiler, node: exp.Expr) -> Expression:
    inner = node.this
    of = to.value(inner.this if isinstance(inner, exp.TsOrDsToDate) else inner)
    return _read(part, node, of)


def _extract(to: Compiler, node: exp.Extract) -> Expression:
    part = _PARTS.get(node.this.name.upper())
    if part is None:
        raise OnlySpark(node)
    return _read(part, node, to.value(node.expression))


def _read(part: str, node: exp.Expr, of: Expression) -> Expression:
    if not (is_plain_time(of.type) or (pt.is_date(of.type) and part not in _OF_DAY)):
        raise OnlySpark(node)
    return Apply(INT32, part, (of,))


RULES: Rules = {
    exp.Year: partial(_part, "year"),
    exp.Quarter: partial(_part, "quarter"),
    exp.Month: partial(_part, "month"),
    exp.Day: partial(_part, "day"),
    exp.DayOfMonth: partial(_part, "day"),
    exp.Hour: partial(_part, "hour"),
    exp.Minute: partial(_part, "minute"),
    exp.Extract: _extract,
}
