"""ORDER BY, LIMIT and OFFSET: what a query over tables may end with."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from thalweg.language.algebra import Node
from thalweg.language.bind.times import is_static
from thalweg.language.text.parse import Parsed
from thalweg.language.text.underline import Span

_ENDLESS = {
    "order": (
        TokenType.ORDER_BY,
        "ORDER BY",
        "a stream never ends: sort what a sink has written, or the frame of a batch",
    ),
    "limit": (TokenType.LIMIT, "LIMIT", "a stream never ends: limit what a sink has written, or stop the query"),
    "offset": (TokenType.OFFSET, "OFFSET", "a stream never ends: skip rows of what a sink has written"),
}


def ordering(parsed: Parsed, query: exp.Query) -> tuple[list[exp.Expr], list[tuple[bool, bool]]]:
    """The expressions of ORDER BY; whether each is descending, and whether its NULLs come first."""
    order = query.args.get("order")
    if order is None:
        return [], []
    nodes = [o.this if isinstance(o, exp.Ordered) else o for o in order.expressions]
    how = [(bool(o.args.get("desc")), bool(o.args.get("nulls_first"))) for o in order.expressions]
    return nodes, how


def named(parsed: Parsed, names: Sequence[str], order: Sequence[exp.Expr]) -> list[str]:
    """The output columns that ORDER BY means after UNION and the like."""
    found = []
    for node in order:
        place = int(node.this) if isinstance(node, exp.Literal) and str(node.this).isdecimal() else 0
        name = node.name if isinstance(node, exp.Column) and len(node.parts) == 1 else ""
        meant = [names[place - 1]] if 1 <= place <= len(names) else [n for n in names if n.lower() == name.lower()]
        if not meant:
            raise parsed.error(node, "after a set operation, only output columns can be sorted by", "name one of them")
        found.append(meant[0])
    return found


def limits(parsed: Parsed, query: exp.Query, node: Node) -> tuple[int | None, int]:
    """LIMIT and OFFSET; an error if there is anything to sort or cut that never ends."""
    for key, (kind, word, hint) in _ENDLESS.items():
        if query.args.get(key) and not is_static(node):
            last = _last(parsed, query, kind)
            raise parsed.error(last, f"{word} is not supported on streams", hint)
    return _number(parsed, query, "limit"), _number(parsed, query, "offset") or 0


def _last(parsed: Parsed, query: exp.Query, kind: TokenType) -> Span | None:
    return parsed.clause(query, kind, *([TokenType.FETCH] if kind == TokenType.LIMIT else []))


def _number(parsed: Parsed, query: exp.Query, key: str) -> int | None:
    clause = query.args.get(key)
    if clause is None:
        return None
    node = clause.args.get("count") if isinstance(clause, exp.Fetch) else clause.expression
    if not isinstance(node, exp.Literal) or not str(node.this).isdecimal():
        raise parsed.error(clause, f"{key.upper()} takes a whole number")
    return int(node.this)
