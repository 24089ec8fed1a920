"""SQL text to a syntax tree that knows where each part was written.

CQL's own clauses are taken out first (clauses.py), then sqlglot reads the rest as Spark SQL. Invariant: whatever the
text, the outcome is a tree or a QueryError that points into it.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from sqlglot import exp
from sqlglot.errors import ParseError
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from thalweg.errors import QueryError
from thalweg.language.text.clauses import Cut, without_istream
from thalweg.language.text.quoting import RESERVED, quoted
from thalweg.language.text.single import refuse_nested
from thalweg.language.text.tokens import CqlText, nesting, span_of, tokenized
from thalweg.language.text.underline import Span, misread
from thalweg.language.text.windows import Clause

_SPAN = "thalweg_span"
_STAND_IN = "thalweg_function_"
"""User functions pass through sqlglot under names that it can't take for its own (MATCH, LEFT and many more)."""


@dataclass(frozen=True)
class Parsed:
    """A single SELECT, the windows taken out of it, and the text that everything points into."""

    text: str
    select: exp.Select
    tokens: tuple[Token, ...]
    windows: Mapping[int, Clause]
    every: Clause | None
    functions: Mapping[str, str]
    """Stand-in to the name under which the user passed the function."""

    @cached_property
    def _starts(self) -> list[int]:
        return [token.start for token in self.tokens]

    def span(self, node: exp.Expr) -> Span | None:
        """Where a node was written: as the parser noted, else what its parts cover."""
        noted = node.meta.get(_SPAN)
        if noted:
            return Span(*noted)
        found = name_span(node)
        for child in node.iter_expressions():
            part = self.span(child)
            if part is not None:
                found = found | part if found else part
        return found

    def clause(self, *kinds: TokenType) -> Span | None:
        """The first token of one of these kinds outside all parentheses."""
        depth = 0
        for i, token in enumerate(self.tokens):
            depth += nesting(token)
            after_dot = i > 0 and self.tokens[i - 1].token_type == TokenType.DOT
            if depth == 0 and token.token_type in kinds and not after_dot:
                return span_of(token)
        return None

    def before(self, position: int) -> Sequence[Token]:
        return self.tokens[: bisect_left(self._starts, position)]

    def error(self, place: exp.Expr | Span | None, message: str, hint: str | None = None) -> QueryError:
        return misread(self.text, self.span(place) if isinstance(place, exp.Expr) else place, message, hint)

    def rendered(self, span: Span, replaced: Mapping[int, tuple[int, str]], quotes: bool = True) -> str:
        """The user's own text of a span on one line without comments; `replaced`: start → (end, replacement)."""
        pieces: list[str] = []
        behind = span.start
        skip = -1
        for token in self.tokens[bisect_left(self._starts, span.start) : bisect_left(self._starts, span.end)]:
            if token.start < skip:
                continue
            end, piece = replaced.get(token.start) or (token.end + 1, self.text[token.start : token.end + 1])
            if token.token_type == TokenType.IDENTIFIER and piece.startswith('"'):
                piece = quoted(token.text)
            if token.token_type == TokenType.STRING and not quotes:
                piece = token.text
            gap = " " if pieces and token.start > behind and pieces[-1] not in ("(", ".") and piece != ")" else ""
            pieces += [gap, piece] if gap else [piece]
            behind = skip = end
        return "".join(pieces)


def name_span(node: exp.Expr) -> Span | None:
    """Where a name was written, as sqlglot notes it."""
    return Span(node.meta["start"], node.meta["end"] + 1) if "start" in node.meta else None


def parse(text: str, functions: Collection[str] = ()) -> Parsed:
    """Read a query. Calls of the named functions are kept apart from SQL's own."""
    tokens = tokenized(text)
    if not tokens:
        raise QueryError("the query is empty", hint="for example SELECT * FROM s [RANGE 10 SECONDS] WHERE s.a > 1")
    tokens, stand_ins = _stand_in(tokens, functions)
    tokens = without_istream(text, tokens)
    refuse_nested(text, tokens)
    rest = Cut(text, tokens)
    return Parsed(text, _select(text, rest.tokens), tuple(rest.tokens), rest.windows, rest.every, stand_ins)


def _stand_in(tokens: list[Token], functions: Collection[str]) -> tuple[list[Token], dict[str, str]]:
    for name in functions:
        if name.upper() in RESERVED:
            raise QueryError(f"a function can't be called '{name}'", hint="it is a word of SQL: give it another name")
    lowered = {name.lower(): name for name in reversed(list(functions))}
    result: list[Token] = []
    stand_ins: dict[str, str] = {}
    for i, token in enumerate(tokens):
        called = i + 1 < len(tokens) and tokens[i + 1].token_type == TokenType.L_PAREN
        literal = token.token_type in (TokenType.STRING, TokenType.NUMBER)
        after_dot = i > 0 and tokens[i - 1].token_type == TokenType.DOT
        name = token.text if token.text in functions else lowered.get(token.text.lower(), "")
        if name and called and not literal and not after_dot:
            stand_in = f"{_STAND_IN}{sorted(functions).index(name)}"
            stand_ins[stand_in] = name
            token = Token(TokenType.VAR, stand_in, token.line, token.col, token.start, token.end)
        result.append(token)
    return result, stand_ins


class _Misread(ParseError):
    def __init__(self, message: str, token: Token | None, at_end: bool) -> None:
        super().__init__(message, [{"description": message}])
        self.token = token
        self.at_end = at_end


class _Positioned(SparkParser):
    """sqlglot's Spark parser; it notes for each expression which characters it was read from.

    Three levels are enough: whole conditions, what AND joins, and operands. The other spans follow from their parts,
    and more levels would only deepen the recursion.
    """

    def _noted(self, node: exp.Expr | None, index: int) -> exp.Expr | None:
        if isinstance(node, exp.Expr) and _SPAN not in node.meta and index < self._index:
            node.meta[_SPAN] = (self._tokens[index].start, self._tokens[self._index - 1].end + 1)
        return node

    def _parse_disjunction(self) -> exp.Expr | None:
        index = self._index
        return self._noted(super()._parse_disjunction(), index)

    def _parse_equality(self, parse_is: bool = True) -> exp.Expr | None:
        index = self._index
        return self._noted(super()._parse_equality(parse_is), index)

    def _parse_unary(self) -> exp.Expr | None:
        index = self._index
        return self._noted(super()._parse_unary(), index)

    def raise_error(self, message: str, token: Token | None = None) -> None:
        place = token or self._curr or self._prev
        raise _Misread(message, place if place else None, at_end=not token and not self._curr)


def _select(text: str, tokens: Sequence[Token]) -> exp.Select:
    logger = logging.getLogger("sqlglot")
    silenced, logger.disabled = logger.disabled, True
    try:
        trees = _Positioned(dialect=CqlText()).parse(list(tokens), text)
    except _Misread as error:
        raise _named(text, error) from None
    except RecursionError:
        raise
    except Exception as error:
        # On some malformed texts sqlglot raises errors of its own (AttributeError, KeyError...).
        raise QueryError("the query can't be read", hint=f"the parser says: {error or type(error).__name__}") from None
    finally:
        logger.disabled = silenced
    if len(trees) != 1 or not isinstance(trees[0], exp.Select):
        raise QueryError("a query is a single SELECT", hint="for example SELECT * FROM s [RANGE 10 SECONDS]")
    return trees[0]


def _named(text: str, error: _Misread) -> QueryError:
    """sqlglot's complaint in our words."""
    token = error.token
    span = span_of(token) if token else None
    said = str(error)
    if error.at_end:
        return misread(text, Span(len(text.rstrip()), len(text.rstrip()) + 1), "the query ends too early", _plain(said))
    if token is not None and ("Unexpected token" in said or "missing for" in said):
        return misread(text, span, f"'{text[token.start : token.end + 1]}' is not expected here", _plain(said))
    return misread(text, span, _plain(said) or "this is not understood")


def _plain(said: str) -> str | None:
    if "Unexpected token" in said:
        return None
    if "missing for" in said:
        return "something is missing here"
    said = said.partition(" but got <")[0]
    return said[:1].lower() + said[1:]
