"""A query is a single SELECT block: anything nested or combined is refused by name, with a way around it.

This happens on tokens, before sqlglot meets windows inside a nested block.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot.tokenizer_core import Token, TokenType

from thalweg.errors import QueryError
from thalweg.language.text.tokens import closing, is_word, span_of
from thalweg.language.text.underline import Span, misread

_PREPARED = "prepare it as a DataFrame and pass that as an input, for example x=df.where(...)"
NO_PARTNER = "for rows without a partner use Spark's left outer join and keep those whose right side IS NULL"
_COMBINED = {
    "UNION": "union the inputs before the query, or the DataFrames of two queries, with unionByName",
    "INTERSECT": "join the two on all their columns",
}


def refuse_nested(text: str, tokens: Sequence[Token]) -> None:
    """Raise unless the tokens are one SELECT block."""
    first = tokens[0] if tokens else None
    if first is not None and first.token_type == TokenType.WITH:
        raise misread(text, span_of(first), "WITH is not supported yet", _PREPARED)
    if first is None or first.token_type != TokenType.SELECT:
        raise misread(text, span_of(first) if first else Span(0, 1), "a query starts with SELECT")
    opened: list[int] = []
    place = ""
    for i, token in enumerate(tokens):
        kind = token.token_type
        previous = tokens[i - 1].token_type if i else None
        if kind == TokenType.L_PAREN:
            table = previous in (TokenType.FROM, TokenType.JOIN) or (previous == TokenType.COMMA and place == "from")
            inner = tokens[i + 1] if i + 1 < len(tokens) else token
            if table and not opened and inner.token_type != TokenType.SELECT:
                raise misread(text, span_of(token), "parentheses in FROM are not supported yet", "list the inputs")
            opened.append(i)
        elif kind == TokenType.R_PAREN and opened:
            opened.pop()
        elif kind == TokenType.FROM and not opened:
            place = "from"
        elif kind in (TokenType.WHERE, TokenType.ON, TokenType.GROUP_BY) and not opened:
            place = "rest"
        elif kind == TokenType.SELECT and i and previous != TokenType.DOT:
            if opened:
                raise _subquery(text, tokens, opened[-1])
            before = next((t for t in reversed(tokens[:i]) if not is_word(t, "ALL", "DISTINCT")), token)
            name = before.text.upper()
            if before.token_type in (TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT):
                raise misread(text, span_of(before), f"{name} is not supported yet", _COMBINED.get(name))
            raise misread(text, span_of(token), "a second SELECT is not expected here")


def _subquery(text: str, tokens: Sequence[Token], opening: int) -> QueryError:
    end = closing(tokens, opening)
    span = span_of(tokens[opening], tokens[end if end is not None else -1])
    before = tokens[:opening]
    hint = _PREPARED
    if before and before[-1].token_type in (TokenType.EXISTS, TokenType.IN):
        hint = "join with the inner query's inputs; a row gives one result for each partner"
        if len(before) > 1 and before[-2].token_type == TokenType.NOT:
            hint = NO_PARTNER
    return misread(text, span, "subqueries are not supported yet", hint)
