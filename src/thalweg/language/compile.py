"""Syntax trees to vectorised expressions, as far as Spark's answer can be given exactly.

Whatever is not known to agree with Spark in ANSI mode for every value (regular expressions, time zones, rounding,
formatting of floats...) is refused with OnlySpark: the text is then evaluated by Spark and never approximated here.
"""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from thalweg.errors import QueryError
from thalweg.language import expression as x
from thalweg.language.functions import Signature
from thalweg.language.query import Column
from thalweg.language.types import (
    MAX_PRECISION,
    as_decimal,
    common,
    comparable,
    family,
    is_decimal,
    is_numeric,
    is_plain_time,
    logical,
)
from thalweg.language.windows import UNITS

BOOL = pa.bool_()
_INT32, _INT64 = pa.int32(), pa.int64()
_MICROSECONDS = pa.duration("us")


_BITS = (exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor)
_PREDICATES = (exp.Between, exp.In, exp.Like, exp.ILike, exp.RegexpLike, exp.Not)


class OnlySpark(Exception):
    """This node's exact answer is known to Spark alone."""

    def __init__(self, node: exp.Expr) -> None:
        super().__init__(type(node).__name__)
        self.node = node


@dataclass(frozen=True)
class Resolved:
    """What a name in the text stands for: a column, and the fields inside it if it is a struct."""

    column: Column
    type: pa.DataType
    fields: tuple[str, ...] = ()


@dataclass(frozen=True)
class Names:
    """All that a condition may mention. Columns are found by the identity of their node."""

    columns: Mapping[int, Resolved]
    functions: Mapping[str, tuple[str, Signature]]
    error: Callable[[exp.Expr, str, str | None], QueryError]
    key: Callable[[Column], Any] = lambda column: column
    """Under what the engine will hand in a column's array."""


def compiled(node: exp.Expr, names: Names) -> x.Expression:
    """The condition as a vectorised expression; OnlySpark where that can't be exact."""
    return _Compiler(names).condition(node)


class _Compiler:
    def __init__(self, names: Names) -> None:
        self.names = names

    def condition(self, node: exp.Expr) -> x.Expression:
        found = self.value(node, BOOL)
        if pt.is_null(found.type):
            return x.Constant(BOOL, None)
        if not pt.is_boolean(found.type):
            raise self.names.error(node, f"a condition is needed here, found a {family(found.type)}", None)
        return found

    def value(self, node: exp.Expr, wanted: pa.DataType | None = None) -> x.Expression:
        if isinstance(node, exp.Paren):
            return self.value(node.this, wanted)
        if isinstance(node, exp.Anonymous) and node.name in self.names.functions:
            return self.call(node, wanted)
        handler = getattr(self, "_" + type(node).__name__.lower(), None)
        if handler is None:
            raise OnlySpark(node)
        found: x.Expression = handler(node)
        return x.Not(BOOL, found) if node.args.get("negate") else found

    def number(self, node: exp.Expr) -> x.Expression:
        found = self.value(node)
        if not is_numeric(found.type):
            raise OnlySpark(node)
        return found

    def text(self, node: exp.Expr | None, parent: exp.Expr) -> x.Expression:
        if node is None:
            raise OnlySpark(parent)
        found = self.value(node)
        if not pt.is_string(found.type):
            raise OnlySpark(node)
        return found

    def cast(self, node: exp.Expr, found: x.Expression, target: pa.DataType) -> x.Expression:
        """To a common type; decimals become floating point only where they are constants."""
        if found.type == target:
            return found
        constant = x.as_constant(found, target)
        if constant is not None:
            return constant
        if is_decimal(found.type) and not is_decimal(target):
            raise OnlySpark(node)
        return x.As(target, found)

    def inputs(self, node: exp.Expr) -> set[str]:
        known = self.names.columns
        return {known[id(c)].column.input for c in node.find_all(exp.Column) if id(c) in known}

    def pair(self, node: exp.Expr, left: exp.Expr, right: exp.Expr) -> tuple[x.Expression, x.Expression]:
        """Two sides of a comparison in their common type."""
        if isinstance(left, _PREDICATES) or isinstance(right, _PREDICATES):
            raise OnlySpark(node)  # without parentheses, Spark takes a = b IN (c) for (a = b) IN (c), sqlglot does not
        if self._is_call(left) and not self._is_call(right):
            b = self.value(right)
            a = self.value(left, BOOL if pt.is_boolean(b.type) else None)
        else:
            a = self.value(left)
            b = self.value(right, BOOL if pt.is_boolean(a.type) else None)
        a, b = _dated(a, b), _dated(b, a)
        if not comparable(a.type, b.type) and self.inputs(left) and self.inputs(right):
            if len(self.inputs(node)) > 1:
                raise self.names.error(
                    node, f"a {family(a.type)} can't be compared with a {family(b.type)}",
                    f"left is {a.type}, right is {b.type}: CAST one of them",
                )  # fmt: skip
            raise OnlySpark(node)
        shared = common(a.type, b.type)
        if shared is None or _nested(shared):
            raise OnlySpark(node)
        return self.cast(left, a, shared), self.cast(right, b, shared)

    def _is_call(self, node: exp.Expr) -> bool:
        node = node.unnest()
        return isinstance(node, exp.Anonymous) and node.name in self.names.functions

    def call(self, node: exp.Anonymous, wanted: pa.DataType | None) -> x.Expression:
        name, signature = self.names.functions[node.name]
        result = signature.result or wanted
        if not signature.takes(len(node.expressions)):
            raise self.names.error(node, f"{name} can't be called with {len(node.expressions)} arguments",
                                   "write as many as its definition has")  # fmt: skip
        if result is None:
            raise self.names.error(node, f"what {name} returns is not known",
                                   f"annotate it (def {name}(...) -> float), or let it return the verdict")  # fmt: skip
        try:
            arguments = tuple(self.value(a) for a in node.expressions)
        except OnlySpark as only:
            raise self.names.error(
                only.node, f"this can't be handed to {name}: only Spark can compute it exactly",
                "make it a column of the input first (withColumn), or compute it inside the function",
            ) from None  # fmt: skip
        return x.Call(result, name, signature.kind, signature.call, arguments)

    # -- leaves

    def _column(self, node: exp.Column) -> x.Expression:
        resolved = self.names.columns[id(node)]
        found: x.Expression = x.Field(logical(resolved.type), self.names.key(resolved.column))
        for name in resolved.fields:
            index = found.type.get_field_index(name)
            found = x.Member(logical(found.type.field(index).type), found, index)
        return found

    def _literal(self, node: exp.Literal) -> x.Expression:
        if node.is_string:
            return x.Constant(pa.string(), node.this)
        return self._numeral(node, str(node.this))

    def _rawstring(self, node: exp.RawString) -> x.Expression:
        return x.Constant(pa.string(), str(node.this))

    def _numeral(self, node: exp.Expr, digits: str) -> x.Expression:
        try:
            if "e" in digits.lower():
                return x.Constant(pa.float64(), float(digits))
            value = decimal.Decimal(digits)
        except (ValueError, decimal.InvalidOperation):
            raise OnlySpark(node) from None
        if "." not in digits and -(2**63) <= value < 2**63:
            return x.Constant(_INT32 if -(2**31) <= value < 2**31 else _INT64, int(value))
        type = _decimal_of(value)
        if type is None:
            raise OnlySpark(node)
        return x.Constant(type, value)

    def _boolean(self, node: exp.Boolean) -> x.Expression:
        return x.Constant(BOOL, bool(node.this))

    def _null(self, node: exp.Null) -> x.Expression:
        return x.Constant(pa.null(), None)

    def _interval(self, node: exp.Interval) -> x.Expression:
        unit = node.args.get("unit")
        amount = node.this
        negative = isinstance(amount, exp.Neg)
        if negative:
            amount = amount.this
        if not isinstance(unit, exp.Var) or not isinstance(amount, exp.Literal):
            raise OnlySpark(node)
        size = UNITS.get(unit.name.lower()) or UNITS.get(unit.name.lower().removesuffix("s"))
        try:
            micros = decimal.Decimal(str(amount.this)) * (size or 0)
        except decimal.InvalidOperation:
            raise OnlySpark(node) from None
        if not size or micros != int(micros) or abs(micros) >= 2**62:
            raise OnlySpark(node)
        return x.Constant(_MICROSECONDS, -int(micros) if negative else int(micros))

    # -- logic

    def _and(self, node: exp.And) -> x.Expression:
        return _balanced(x.And, [self.condition(n) for n in _chain(node, exp.And)])

    def _or(self, node: exp.Or) -> x.Expression:
        return _balanced(x.Or, [self.condition(n) for n in _chain(node, exp.Or)])

    def _not(self, node: exp.Not) -> x.Expression:
        return x.Not(BOOL, self.condition(node.this))

    def _is(self, node: exp.Is) -> x.Expression:
        if isinstance(node.expression, exp.Null):
            return x.IsNull(BOOL, self.value(node.this))
        if isinstance(node.expression, exp.Boolean):
            return x.Is(BOOL, self.condition(node.this), bool(node.expression.this))
        raise OnlySpark(node)

    # -- comparisons

    def _compare(self, op: Any, node: exp.Expr) -> x.Expression:
        if op in ("<", "<=", ">", ">="):
            self._within_bigint(node, node.this, node.expression)
        return self._compared(op, node, node.this, node.expression)

    def _compared(self, op: Any, node: exp.Expr, this: exp.Expr, other: exp.Expr) -> x.Expression:
        left, right = self.pair(node, this, other)
        if pt.is_null(left.type):
            return x.Constant(BOOL, None)  # NULL beside NULL: there is no type to compare in
        return x.Compare(BOOL, op, left, right)

    def _within_bigint(self, node: exp.Expr, *sides: exp.Expr) -> None:
        """Beside a literal that no bigint can reach, Spark gives true or false even for NULL."""
        for side in sides:
            side = side.unnest()
            if isinstance(side, exp.Literal | exp.Neg) and side.find(exp.Column) is None:
                found = self.value(side)
                if isinstance(found, x.Constant) and is_decimal(found.type) and not -(2**63) <= found.value < 2**63:
                    raise OnlySpark(node)

    def _eq(self, node: exp.EQ) -> x.Expression:
        return self._compare("=", node)

    def _neq(self, node: exp.NEQ) -> x.Expression:
        return self._compare("<>", node)

    def _lt(self, node: exp.LT) -> x.Expression:
        return self._compare("<", node)

    def _lte(self, node: exp.LTE) -> x.Expression:
        return self._compare("<=", node)

    def _gt(self, node: exp.GT) -> x.Expression:
        return self._compare(">", node)

    def _gte(self, node: exp.GTE) -> x.Expression:
        return self._compare(">=", node)

    def _nullsafeeq(self, node: exp.NullSafeEQ | exp.NullSafeNEQ) -> x.Expression:
        left, right = self.pair(node, node.this, node.expression)
        if pt.is_null(left.type):
            return x.Constant(BOOL, True)
        return x.NullSafeEqual(BOOL, left, right)

    def _nullsafeneq(self, node: exp.NullSafeNEQ) -> x.Expression:
        return x.Not(BOOL, self._nullsafeeq(node))

    def _between(self, node: exp.Between) -> x.Expression:
        if node.args.get("symmetric"):
            raise OnlySpark(node)
        low, high = node.args["low"], node.args["high"]
        self._within_bigint(node, node.this, low)
        self._within_bigint(node, node.this, high)
        above, below = self._compared(">=", node, node.this, low), self._compared("<=", node, node.this, high)
        return x.And(BOOL, above, below)

    def _in(self, node: exp.In) -> x.Expression:
        if not node.expressions or node.args.get("query") or node.args.get("unnest") or node.args.get("field"):
            raise OnlySpark(node)
        of = self.value(node.this)
        options = [_dated(self.value(e), of) for e in node.expressions]
        shared: pa.DataType | None = of.type
        for option in options:
            shared = common(shared, option.type) if shared is not None else None
        if shared is None or _nested(shared) or pt.is_null(shared):
            raise OnlySpark(node)
        of = self.cast(node, of, shared)
        options = [self.cast(node, o, shared) for o in options]
        if all(isinstance(o, x.Constant) for o in options) and (
            pt.is_integer(shared) or pt.is_string(shared) or pt.is_date(shared)
        ):
            return x.In(BOOL, of, tuple(o.value for o in options if isinstance(o, x.Constant)))
        return _balanced(x.Or, [x.Compare(BOOL, "=", of, option) for option in options])

    def _like(self, node: exp.Like) -> x.Expression:
        pattern = node.expression
        if not (isinstance(pattern, exp.Literal) and pattern.is_string):
            raise OnlySpark(node)
        regex = _like_regex(str(pattern.this), "\\")
        if regex is None:
            raise OnlySpark(node)
        return x.Matches(BOOL, self.text(node.this, node), regex)

    # -- arithmetic

    def _arithmetic(self, op: Any, node: exp.Expr) -> x.Expression:
        a, b = self.value(node.this), self.value(node.expression)
        timed = self._timed(op, node, a, b)
        if timed is not None:
            return timed
        if not (is_numeric(a.type) and is_numeric(b.type)):
            raise OnlySpark(node)
        if (is_decimal(a.type) or is_decimal(b.type)) and not (pt.is_floating(a.type) or pt.is_floating(b.type)):
            return self._decimals(op, node, a, b)
        shared = common(a.type, b.type)
        if shared is None:
            raise OnlySpark(node)
        return x.Arithmetic(shared, op, self.cast(node, a, shared), self.cast(node, b, shared))

    def _decimals(self, op: Any, node: exp.Expr, a: x.Expression, b: x.Expression) -> x.Expression:
        p, q = as_decimal(_snug(a)), as_decimal(_snug(b))
        if p is None or q is None:
            raise OnlySpark(node)
        if op == "*":
            precision, scale = p.precision + q.precision + 1, p.scale + q.scale
        else:
            scale = max(p.scale, q.scale)
            precision = max(p.precision - p.scale, q.precision - q.scale) + scale + 1
        if precision > MAX_PRECISION:
            raise OnlySpark(node)
        result = pa.decimal128(precision, scale)
        if op == "*":
            return x.Arithmetic(result, op, self.cast(node, a, p), self.cast(node, b, q))
        return x.Arithmetic(result, op, self.cast(node, a, pa.decimal128(precision - 1, scale)),
                            self.cast(node, b, pa.decimal128(precision - 1, scale)))  # fmt: skip

    def _timed(self, op: Any, node: exp.Expr, a: x.Expression, b: x.Expression) -> x.Expression | None:
        """Times and intervals. A day is 24 hours only where there is no time zone, so the rest is Spark's."""
        if pt.is_duration(a.type) and pt.is_timestamp(b.type) and op == "+":
            a, b = b, a
        if pt.is_timestamp(a.type) and pt.is_duration(b.type) and op in ("+", "-"):
            short = isinstance(b, x.Constant) and abs(b.value) < UNITS["day"]
            if a.type.unit != "us" or not (is_plain_time(a.type) or short):
                raise OnlySpark(node)
            return x.Arithmetic(a.type, op, a, b)
        if is_plain_time(a.type) and is_plain_time(b.type) and op == "-":
            if a.type.unit != "us" or b.type.unit != "us":
                raise OnlySpark(node)
            return x.Arithmetic(_MICROSECONDS, op, a, b)
        if pt.is_duration(a.type) and pt.is_duration(b.type) and op in ("+", "-"):
            return x.Arithmetic(_MICROSECONDS, op, a, b)
        if pt.is_date(a.type) and pt.is_integer(b.type) and b.type.bit_width <= 32 and op in ("+", "-"):
            return x.Arithmetic(a.type, op, a, self.cast(node, b, _INT32))
        return None

    def _add(self, node: exp.Add) -> x.Expression:
        return self._arithmetic("+", node)

    def _sub(self, node: exp.Sub) -> x.Expression:
        return self._arithmetic("-", node)

    def _mul(self, node: exp.Mul) -> x.Expression:
        return self._arithmetic("*", node)

    def _div(self, node: exp.Div) -> x.Expression:
        a, b = self.number(node.this), self.number(node.expression)
        if (is_decimal(a.type) or is_decimal(b.type)) and not (pt.is_floating(a.type) or pt.is_floating(b.type)):
            raise OnlySpark(node)
        double = pa.float64()
        return x.Divide(double, "/", self.cast(node, a, double), self.cast(node, b, double))

    def _intdiv(self, node: exp.IntDiv) -> x.Expression:
        a, b = self.number(node.this), self.number(node.expression)
        if not (pt.is_integer(a.type) and pt.is_integer(b.type)):
            raise OnlySpark(node)
        return x.Divide(_INT64, "div", self.cast(node, a, _INT64), self.cast(node, b, _INT64))

    def _mod(self, node: exp.Mod) -> x.Expression:
        a, b = self.number(node.this), self.number(node.expression)
        shared = common(a.type, b.type)
        if shared is None or is_decimal(shared):
            raise OnlySpark(node)
        return x.Divide(shared, "%", self.cast(node, a, shared), self.cast(node, b, shared))

    def _bits(self, op: Any, node: exp.Expr) -> x.Expression:
        for side in (node.this, node.expression):
            if isinstance(side, _BITS) and type(side) is not type(node):
                raise OnlySpark(node)  # to Spark & binds tighter than ^ and ^ tighter than |, to sqlglot they are equal
        a, b = self.number(node.this), self.number(node.expression)
        if not (pt.is_integer(a.type) and pt.is_integer(b.type)):
            raise OnlySpark(node)
        shared = common(a.type, b.type)
        return x.Bits(shared, op, self.cast(node, a, shared), self.cast(node, b, shared))

    def _bitwiseand(self, node: exp.BitwiseAnd) -> x.Expression:
        return self._bits("&", node)

    def _bitwiseor(self, node: exp.BitwiseOr) -> x.Expression:
        return self._bits("|", node)

    def _bitwisexor(self, node: exp.BitwiseXor) -> x.Expression:
        return self._bits("^", node)

    def _neg(self, node: exp.Neg) -> x.Expression:
        if isinstance(node.this, exp.Literal) and not node.this.is_string:
            return self._numeral(node, "-" + str(node.this.this))
        return x.Sign((of := self.number(node.this)).type, "-", of)

    def _abs(self, node: exp.Abs) -> x.Expression:
        return x.Sign((of := self.number(node.this)).type, "abs", of)

    # -- choices

    def _branches(self, node: exp.Expr, branches: list[exp.Expr]) -> list[x.Expression]:
        """Values of one choice in their common type."""
        values = [self.value(b) for b in branches]
        shared: pa.DataType | None = pa.null()
        for value in values:
            shared = common(shared, value.type) if shared is not None else None
        if shared is None or _nested(shared) or pt.is_null(shared):
            raise OnlySpark(node)
        return [self.cast(node, v, shared) for v in values]

    def _case(self, node: exp.Case) -> x.Expression:
        ifs = node.args["ifs"]
        if node.this is None:
            conditions = [self.condition(i.this) for i in ifs]
        else:
            conditions = [self._compared("=", node, node.this, i.this) for i in ifs]
        default = node.args.get("default")
        values = self._branches(node, [i.args["true"] for i in ifs] + [default or exp.Null()])
        return x.Case(values[0].type, tuple(conditions), tuple(values[:-1]), values[-1])

    def _if(self, node: exp.If) -> x.Expression:
        yes, no = self._branches(node, [node.args["true"], node.args.get("false") or exp.Null()])
        return x.Case(yes.type, (self.condition(node.this),), (yes,), no)

    def _coalesce(self, node: exp.Coalesce) -> x.Expression:
        items = self._branches(node, [node.this, *node.expressions])
        return x.Coalesce(items[0].type, tuple(items))

    def _nullif(self, node: exp.Nullif) -> x.Expression:
        left, right = self.pair(node, node.this, node.expression)
        value = self.value(node.this)
        if pt.is_null(value.type) or pt.is_null(left.type):
            raise OnlySpark(node)
        same = x.Compare(BOOL, "=", left, right)
        return x.Case(value.type, (same,), (x.Constant(value.type, None),), value)

    def _greatest(self, node: exp.Expr) -> x.Expression:
        items = self._branches(node, [node.this, *node.expressions])
        return x.Extreme(items[0].type, ">", tuple(items))

    def _least(self, node: exp.Expr) -> x.Expression:
        items = self._branches(node, [node.this, *node.expressions])
        return x.Extreme(items[0].type, "<", tuple(items))

    # -- casts

    def _cast(self, node: exp.Cast) -> x.Expression:
        if node.args.get("safe") or node.args.get("format") or node.args.get("default"):
            raise OnlySpark(node)
        target = _named_type(node.args["to"])
        if target is None:
            raise OnlySpark(node)
        of = self.value(node.this)
        if isinstance(of, x.Constant) and pt.is_string(of.type) and (pt.is_date(target) or is_plain_time(target)):
            moment = _moment(of.value, target)
            if moment is None:
                raise OnlySpark(node)
            return moment
        if not _castable(of, target):
            raise OnlySpark(node)
        return x.as_constant(of, target) or x.As(target, of)

    _trycast = _cast
    """sqlglot reads Spark's CAST as one that may be lenient; a real TRY_CAST says so."""

    # -- texts

    def _isnan(self, node: exp.IsNan) -> x.Expression:
        of = self.number(node.this)
        if not pt.is_floating(of.type):
            raise OnlySpark(node)
        return x.IsNan(BOOL, of)

    def _upper(self, node: exp.Upper) -> x.Expression:
        return x.Text(pa.string(), "upper", self.text(node.this, node))

    def _lower(self, node: exp.Lower) -> x.Expression:
        return x.Text(pa.string(), "lower", self.text(node.this, node))

    def _trim(self, node: exp.Trim) -> x.Expression:
        if node.expression or node.args.get("collation"):
            raise OnlySpark(node)
        side = str(node.args.get("position") or "").upper()
        op = {"": "trim", "BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}.get(side)
        if op is None:
            raise OnlySpark(node)
        return x.Text(pa.string(), op, self.text(node.this, node))

    def _length(self, node: exp.Length) -> x.Expression:
        of = self.value(node.this)
        if not (pt.is_string(of.type) or pt.is_binary(of.type)):
            raise OnlySpark(node)
        return x.Text(_INT32, "length", of)

    def _substring(self, node: exp.Substring) -> x.Expression:
        start, length = self._whole(node.args.get("start")), self._whole(node.args.get("length"))
        if start is None or start < 0 or (node.args.get("length") is not None and length is None):
            raise OnlySpark(node)
        begin = max(0, start - 1)
        stop = None if length is None else begin + max(0, length)
        return x.Text(pa.string(), "substring", self.text(node.this, node), (begin, stop))

    def _left(self, node: exp.Left) -> x.Expression:
        length = self._whole(node.expression)
        if length is None:
            raise OnlySpark(node)
        return x.Text(pa.string(), "substring", self.text(node.this, node), (0, max(0, length)))

    def _whole(self, node: exp.Expr | None) -> int | None:
        if isinstance(node, exp.Literal | exp.Neg | exp.Paren):
            found = self.value(node)
            if isinstance(found, x.Constant) and pt.is_int32(found.type):
                return int(found.value)
        return None

    def _search(self, op: str, node: exp.Expr) -> x.Expression:
        what = node.expression
        if not (isinstance(what, exp.Literal) and what.is_string):
            raise OnlySpark(node)
        return x.Text(BOOL, op, self.text(node.this, node), (str(what.this),))

    def _startswith(self, node: exp.StartsWith) -> x.Expression:
        return self._search("startswith", node)

    def _endswith(self, node: exp.EndsWith) -> x.Expression:
        return self._search("endswith", node)

    def _contains(self, node: exp.Contains) -> x.Expression:
        return self._search("contains", node)

    def _concat(self, node: exp.Concat) -> x.Expression:
        return x.Concat(pa.string(), tuple(self.text(e, node) for e in node.expressions))

    def _dpipe(self, node: exp.DPipe) -> x.Expression:
        return x.Concat(pa.string(), (self.text(node.this, node), self.text(node.expression, node)))


def _chain(node: exp.Expr, kind: type[exp.Expr]) -> list[exp.Expr]:
    """The operands of one connector, in written order."""
    found: list[exp.Expr] = []
    waiting = [node]
    while waiting:
        part = waiting.pop()
        if isinstance(part, kind):
            waiting += [part.expression, part.this]
        else:
            found.append(part)
    return found


def _balanced(kind: type[x.And] | type[x.Or], parts: Sequence[x.Expression]) -> x.Expression:
    """Connected from left to right, but no deeper than need be."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return kind(BOOL, _balanced(kind, parts[:half]), _balanced(kind, parts[half:]))


def _nested(type: pa.DataType) -> bool:
    return bool(pt.is_nested(type) or pt.is_time(type) or pt.is_decimal256(type) or pt.is_interval(type))


def _decimal_of(value: decimal.Decimal) -> pa.Decimal128Type | None:
    """The narrowest decimal that holds a written number."""
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        return None
    scale = max(0, -exponent)
    precision = max(len(digits) + max(0, exponent), scale, 1)
    return pa.decimal128(precision, scale) if precision <= MAX_PRECISION else None


def _snug(found: x.Expression) -> pa.DataType:
    """Spark gives whole literals beside decimals no more digits than they have."""
    if isinstance(found, x.Constant) and pt.is_integer(found.type) and found.value is not None:
        return _decimal_of(decimal.Decimal(found.value))
    return found.type


def _castable(of: x.Expression, target: pa.DataType) -> bool:
    source = of.type
    if source == target or pt.is_null(source):
        return True
    if pt.is_integer(target):
        return bool(pt.is_integer(source) or pt.is_boolean(source) or pt.is_floating(source))
    if pt.is_floating(target):
        exact = pt.is_integer(source) or pt.is_floating(source)
        return bool(exact or (isinstance(of, x.Constant) and is_numeric(source)))
    if pt.is_boolean(target):
        return bool(pt.is_integer(source))
    if is_decimal(target):
        if pt.is_integer(source):
            return bool(target.precision - target.scale >= {8: 3, 16: 5, 32: 10, 64: 19}[source.bit_width])
        return bool(is_decimal(source) and target.scale >= source.scale
                    and target.precision - target.scale >= source.precision - source.scale)  # fmt: skip
    if pt.is_string(target):
        return bool(pt.is_integer(source) or pt.is_boolean(source))
    if is_plain_time(target):
        return bool(pt.is_date(source))
    return bool(pt.is_date(target) and is_plain_time(source))


_TYPES = {
    exp.DType.BOOLEAN: BOOL, exp.DType.TINYINT: pa.int8(), exp.DType.SMALLINT: pa.int16(),
    exp.DType.INT: _INT32, exp.DType.BIGINT: _INT64, exp.DType.FLOAT: pa.float32(),
    exp.DType.DOUBLE: pa.float64(), exp.DType.TEXT: pa.string(), exp.DType.DATE: pa.date32(),
    exp.DType.TIMESTAMPNTZ: pa.timestamp("us"),
}  # fmt: skip


def _named_type(to: exp.DataType) -> pa.DataType | None:
    if to.this in (exp.DType.DECIMAL,):
        try:
            precision, scale = ([int(str(e.this.this)) for e in to.expressions] + [10, 0])[:2] if len(
                to.expressions
            ) != 1 else (int(str(to.expressions[0].this.this)), 0)  # fmt: skip
            return pa.decimal128(precision, scale) if 0 < precision <= MAX_PRECISION and scale <= precision else None
        except (ValueError, AttributeError):
            return None
    return None if to.expressions else _TYPES.get(to.this)


_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}:\d{2}(\.\d{1,6})?")


def _moment(text: str, type: pa.DataType) -> x.Constant | None:
    """A written date or time in its plainest form; the many others that Spark knows are left to it."""
    try:
        if pt.is_date(type) and _DATE.fullmatch(text):
            return x.Constant(type, datetime.date.fromisoformat(text))
        if is_plain_time(type) and type.unit == "us" and (_DATE.fullmatch(text) or _TIME.fullmatch(text)):
            return x.Constant(type, datetime.datetime.fromisoformat(text))
    except ValueError:
        return None
    return None


def _dated(found: x.Expression, beside: x.Expression) -> x.Expression:
    """A written text beside a date or a time means a date or a time."""
    if isinstance(found, x.Constant) and pt.is_string(found.type) and isinstance(found.value, str):
        return _moment(found.value, beside.type) or found
    return found


def _like_regex(pattern: str, escape: str) -> str | None:
    """LIKE as RE2; None where Spark would refuse the pattern."""
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
