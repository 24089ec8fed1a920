"""SQL text to a syntax tree that knows where each part was written.

CQL's own clauses are cut out first (windows.py), then sqlglot reads the rest as Spark SQL. Double quotes quote names,
as in standard SQL (and Spark's doubleQuotedIdentifiers); texts stand in single quotes. Invariant: whatever the text,
the outcome is a tree or a QueryError that points into it.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from thalweg.errors import QueryError
from thalweg.language.strings import unescaped
from thalweg.language.underline import Span, misread
from thalweg.language.windows import Clause, Cut, cut, is_word, span_of, without_istream

_SPAN = "thalweg_span"
_STAND_IN = "thalweg_function_"
"""User functions travel through sqlglot under names that it can't take for its own (MATCH, LEFT and many more)."""
_RESERVED = frozenset(
    ["SELECT", "FROM", "WHERE", "JOIN", "ON", "USING", "AND", "OR", "NOT", "IN", "IS", "LIKE", "BETWEEN", "CASE",
     "WHEN", "THEN", "ELSE", "END", "EXISTS", "AS", "CROSS", "INNER", "LEFT", "RIGHT", "FULL", "UNION", "EXCEPT",
     "INTERSECT", "DISTINCT", "ALL", "ANY", "VALUES", "CAST", "INTERVAL", "WINDOW", "OVER", "ISTREAM", "DSTREAM",
     "RSTREAM"]
)  # fmt: skip


class _Positioned(SparkParser):
    """sqlglot's Spark parser that notes for each expression which characters it was read from."""

    def _noted(self, node: exp.Expr | None, index: int) -> exp.Expr | None:
        if isinstance(node, exp.Expr) and _SPAN not in node.meta and index < self._index:
            node.meta[_SPAN] = (self._tokens[index].start, self._tokens[self._index - 1].end + 1)
        return node

    # Three levels are enough: what stands alone or in parentheses, what AND joins, and operands. More would only
    # deepen the recursion; the rest of the spans follows from their parts.

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


class _Misread(ParseError):
    def __init__(self, message: str, token: Token | None, at_end: bool) -> None:
        super().__init__(message, [{"description": message}])
        self.token = token
        self.at_end = at_end


class CqlText(Spark):
    """Spark's dialect with double quotes around names and '' inside texts, as Spark 4 reads them."""

    class Tokenizer(Spark.Tokenizer):
        QUOTES: ClassVar[list[Any]] = ["'"]
        IDENTIFIERS: ClassVar[list[Any]] = ["`", '"']
        STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'"]
        RAW_STRINGS: ClassVar[list[Any]] = [("r'", "'"), ("R'", "'")]

    Parser = _Positioned


@dataclass(frozen=True)
class Parsed:
    """A single SELECT, the windows cut out of it, and the text that everything points into."""

    text: str
    select: exp.Select
    tokens: tuple[Token, ...]
    windows: Mapping[int, Clause]
    every: Clause | None
    functions: Mapping[str, str]
    """Stand-in to the name under which the user's function was given."""

    @cached_property
    def _starts(self) -> list[int]:
        return [token.start for token in self.tokens]

    def span(self, node: exp.Expr) -> Span | None:
        """Where a node was written: as noted, or else what its parts cover."""
        noted = node.meta.get(_SPAN)
        if noted:
            return Span(*noted)
        found: Span | None = None
        if "start" in node.meta:
            found = Span(node.meta["start"], node.meta["end"] + 1)
        for child in node.iter_expressions():
            part = self.span(child)
            if part is not None:
                found = found | part if found else part
        return found

    def clause(self, *kinds: TokenType) -> Span | None:
        """The first token of one of these kinds outside all parentheses."""
        depth = 0
        for i, token in enumerate(self.tokens):
            depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
            behind_dot = i > 0 and self.tokens[i - 1].token_type == TokenType.DOT
            if depth == 0 and token.token_type in kinds and not behind_dot:
                return span_of(token)
        return None

    def error(self, place: exp.Expr | Span | None, message: str, hint: str | None = None) -> QueryError:
        return misread(self.text, self.span(place) if isinstance(place, exp.Expr) else place, message, hint)

    def rendered(self, span: Span, replaced: Mapping[int, tuple[int, str]], quotes: bool = True) -> str:
        """The user's own text of a span on one line without comments; replaced: start → (end, what stands there)."""
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


def quoted(name: str) -> str:
    """A name as Spark takes it: plain where it can be, else in backticks.

    >>> quoted("origin"), quoted("tail num"), quoted("order")
    ('origin', '`tail num`', '`order`')
    """
    plain = name.isascii() and name.replace("_", "a").isalnum() and not name[:1].isdigit()
    if plain and name.upper() not in _KEYWORDS:
        return name
    return "`" + name.replace("`", "``") + "`"


_KEYWORDS = _RESERVED | frozenset(
    ["AUTHORIZATION", "BOTH", "CHECK", "COLLATE", "COLUMN", "CONSTRAINT", "CREATE", "CURRENT_DATE", "CURRENT_TIME",
     "CURRENT_TIMESTAMP", "CURRENT_USER", "ESCAPE", "FALSE", "FETCH", "FILTER", "FOR", "FOREIGN", "GRANT", "GROUP",
     "HAVING", "INTO", "LATERAL", "LEADING", "NATURAL", "NULL", "OFFSET", "ONLY", "ORDER", "OUTER", "OVERLAPS",
     "PRIMARY", "REFERENCES", "SEMI", "ANTI", "MINUS", "SESSION_USER", "SOME", "TABLE", "TIME", "TO", "TRAILING",
     "TRUE", "UNIQUE", "UNKNOWN", "USER", "WITH", "WITHIN"]
)  # fmt: skip
"""Words that Spark reserves in its strictest mode."""


def parse(text: str, functions: Collection[str] = ()) -> Parsed:
    """Read a query. Calls of the named functions are kept apart from SQL's own."""
    tokens = _tokens(text)
    if not tokens:
        raise QueryError("the query is empty", hint="for example SELECT * FROM s [RANGE 10 SECONDS] WHERE s.a > 1")
    tokens, stand_ins = _stand_in(text, tokens, functions)
    tokens = without_istream(text, tokens)
    _one_block(text, tokens)
    without = cut(text, tokens)
    return Parsed(text, _select(text, without), without.tokens, without.windows, without.every, stand_ins)


def _tokens(text: str) -> list[Token]:
    try:
        tokens = CqlText().tokenize(text)
    except (TokenError, RecursionError, ValueError, OverflowError) as error:
        raise _untokenised(text, error) from None
    while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens.pop()
    for i, token in enumerate(tokens):
        if token.token_type == TokenType.SEMICOLON:
            raise misread(text, span_of(token), "one query at a time", "leave out all behind the semicolon")
        if token.token_type == TokenType.STRING and text[token.start] == "'":
            value = unescaped(text[token.start + 1 : token.end])
            tokens[i] = Token(TokenType.STRING, value, token.line, token.col, token.start, token.end, token.comments)
    return tokens


def _untokenised(text: str, error: Exception) -> QueryError:
    """Most often a quote that is never closed: point at the last one opened."""
    opened: int | None = None
    quote = ""
    i = 0
    while i < len(text):
        c = text[i]
        if quote:
            if c == "\\" and quote == "'":
                i += 1
            elif c == quote:
                quote = ""
        elif text.startswith("--", i):
            i = (text + "\n").index("\n", i)
        elif c in "'\"`":
            quote, opened = c, i
        i += 1
    if quote and opened is not None:
        return misread(text, Span(opened, opened + 1), f"the quote {quote} is never closed")
    return QueryError("the text can't be split into words", hint=str(error).splitlines()[0] if str(error) else None)


def _stand_in(text: str, tokens: list[Token], functions: Collection[str]) -> tuple[list[Token], dict[str, str]]:
    for name in functions:
        if name.upper() in _RESERVED:
            raise QueryError(f"a function can't be called '{name}'", hint="it is a word of SQL: give it another name")
    lowered: dict[str, str] = {}
    for name in functions:
        lowered.setdefault(name.lower(), name)
    result: list[Token] = []
    stand_ins: dict[str, str] = {}
    for i, token in enumerate(tokens):
        called = i + 1 < len(tokens) and tokens[i + 1].token_type == TokenType.L_PAREN and token.token_type not in (
            TokenType.STRING, TokenType.NUMBER
        )  # fmt: skip
        behind_dot = i > 0 and tokens[i - 1].token_type == TokenType.DOT
        name = token.text if token.text in functions else lowered.get(token.text.lower(), "")
        if called and not behind_dot and name:
            stand_in = f"{_STAND_IN}{sorted(functions).index(name)}"
            stand_ins[stand_in] = name
            token = Token(TokenType.VAR, stand_in, token.line, token.col, token.start, token.end)
        result.append(token)
    return result, stand_ins


def _one_block(text: str, tokens: Sequence[Token]) -> None:
    """Refuse what is more than one SELECT block, by name, before sqlglot trips over windows inside it."""
    first = tokens[0] if tokens else None
    if first is None or first.token_type != TokenType.SELECT:
        if first is not None and first.token_type == TokenType.WITH:
            raise misread(text, span_of(first), "WITH is not supported yet", "write a single SELECT")
        raise misread(text, span_of(first) if first else Span(0, 1), "a query starts with SELECT")
    opened: list[Token] = []
    place = ""
    for i, token in enumerate(tokens):
        kind = token.token_type
        previous = tokens[i - 1] if i else None
        behind_dot = previous is not None and previous.token_type == TokenType.DOT
        if kind == TokenType.L_PAREN:
            starts_table = previous is not None and previous.token_type in (TokenType.FROM, TokenType.JOIN)
            behind_comma = previous is not None and previous.token_type == TokenType.COMMA and place == "from"
            inner = tokens[i + 1] if i + 1 < len(tokens) else token
            if (starts_table or behind_comma) and not opened and inner.token_type != TokenType.SELECT:
                raise misread(text, span_of(token), "parentheses in FROM are not supported yet", "list the inputs")
            opened.append(token)
        elif kind == TokenType.R_PAREN and opened:
            opened.pop()
        elif kind == TokenType.FROM and not opened:
            place = "from"
        elif kind in (TokenType.WHERE, TokenType.ON, TokenType.GROUP_BY) and not opened:
            place = "rest"
        elif kind == TokenType.SELECT and i and not behind_dot:
            if opened:
                raise misread(text, _enclosed(tokens, opened[-1], i), "subqueries are not supported yet",
                              "join with the inner query's inputs instead")  # fmt: skip
            before = next((t for t in reversed(tokens[:i]) if not is_word(t, "ALL", "DISTINCT")), token)
            if before.token_type in (TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT):
                raise misread(text, span_of(before), f"{before.text.upper()} is not supported yet",
                              "run the two queries side by side")  # fmt: skip
            raise misread(text, span_of(token), "a second SELECT is not expected here")


def _enclosed(tokens: Sequence[Token], opening: Token, inside: int) -> Span:
    depth = 1
    for token in tokens[inside:]:
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        if depth == 0:
            return span_of(opening, token)
    return span_of(opening, tokens[-1])


def _select(text: str, without: Cut) -> exp.Select:
    logger = logging.getLogger("sqlglot")
    silenced, logger.disabled = logger.disabled, True
    try:
        trees = _Positioned(dialect=CqlText()).parse(list(without.tokens), text)
    except _Misread as error:
        raise _named(text, error) from None
    except RecursionError:
        raise
    except Exception as error:
        # sqlglot lets errors of its own (AttributeError, KeyError...) escape on some malformed texts.
        raise QueryError("the query can't be read", hint=f"the reader says: {error or type(error).__name__}") from None
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
