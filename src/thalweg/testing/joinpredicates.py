"""Predicates of a join case, as small trees, so that each oracle reads them in its own way; and their SQL text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Ref:
    """A column of one input."""

    alias: str
    column: str


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant of one family."""

    value: Any


@dataclass(frozen=True, slots=True)
class Plus:
    """The sum of two whole numbers."""

    left: Term
    right: Term


Term = Ref | Constant | Plus
Comparison = Literal["=", "<>", "<", "<=", ">", ">=", "<=>"]


@dataclass(frozen=True, slots=True)
class Compare:
    left: Term
    op: Comparison
    right: Term


@dataclass(frozen=True, slots=True)
class Between:
    term: Term
    low: Term
    high: Term


@dataclass(frozen=True, slots=True)
class Among:
    """`term IN (...)`."""

    term: Term
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Missing:
    """`term IS NULL`."""

    term: Term


@dataclass(frozen=True, slots=True)
class Call:
    """A Python function of FUNCTIONS over columns."""

    function: str
    arguments: tuple[Ref, ...]


@dataclass(frozen=True, slots=True)
class Not:
    inner: Predicate


@dataclass(frozen=True, slots=True)
class Or:
    left: Predicate
    right: Predicate


Predicate = Compare | Between | Among | Missing | Call | Not | Or


def odd(value: int | None) -> bool | None:
    """NULL for NULL, as most functions are written."""
    return None if value is None else value % 2 != 0


def absent_or_small(value: int | None) -> bool:
    """True for NULL: a function that a careless engine would not even call."""
    return value is None or value < 2


def brief(value: str | None) -> bool:
    return value is not None and len(value) < 2


def near(left: int | None, right: int | None) -> bool | None:
    """Over two columns, of one input or of two."""
    return None if left is None or right is None else abs(left - right) <= 2


FUNCTIONS: Mapping[str, Callable[..., bool | None]] = {
    "odd": odd, "absent_or_small": absent_or_small, "brief": brief, "near": near,
}  # fmt: skip


def terms(part: Predicate | Term) -> Iterator[Term]:
    """The terms without parts: columns and constants."""
    match part:
        case Ref() | Constant():
            yield part
        case Plus(a, b) | Compare(a, _, b) | Or(a, b):
            yield from terms(a)
            yield from terms(b)
        case Between(a, b, c):
            for x in (a, b, c):
                yield from terms(x)
        case Among(a, _) | Missing(a) | Not(a):
            yield from terms(a)
        case Call(_, arguments):
            yield from arguments


def aliases(part: Predicate | Term) -> frozenset[str]:
    return frozenset(t.alias for t in terms(part) if isinstance(t, Ref))


def render(part: Predicate | Term) -> str:
    """As Thalweg's SQL.

    >>> render(Not(Compare(Plus(Ref("a", "x"), Constant(1)), "<=", Ref("b", "y"))))
    'NOT (a.x + 1 <= b.y)'
    """
    match part:
        case Ref(alias, column):
            return f"{alias}.{column}"
        case Constant(value):
            return literal(value)
        case Plus(a, b):
            return f"{render(a)} + {render(b)}"
        case Compare(a, op, b):
            return f"{render(a)} {op} {render(b)}"
        case Between(a, low, high):
            return f"{render(a)} BETWEEN {render(low)} AND {render(high)}"
        case Among(a, values):
            return f"{render(a)} IN ({', '.join(literal(v) for v in values)})"
        case Missing(a):
            return f"{render(a)} IS NULL"
        case Call(name, arguments):
            return f"{name}({', '.join(render(a) for a in arguments)})"
        case Not(a):
            return f"NOT ({render(a)})"
        case Or(a, b):
            return f"({render(a)} OR {render(b)})"


def literal(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return "'" + value.replace("'", "\\'") + "'"
        case date():
            return f"DATE '{value.isoformat()}'"
        case float():
            return f"{value}D"
        case _:
            return str(value)


def calls(predicate: Predicate) -> Iterator[str]:
    """The names of the functions that a predicate calls."""
    match predicate:
        case Call(name, _):
            yield name
        case Not(a):
            yield from calls(a)
        case Or(a, b):
            yield from calls(a)
            yield from calls(b)
        case _:
            pass
