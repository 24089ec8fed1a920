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
from thalweg.language.text.clauses import Cut, Level, Watermark, starts_a_query
from thalweg.language.text.quoting import RESERVED, quoted
from thalweg.language.text.tokens import CqlText, nesting, span_of, tokenized
from thalweg.language.text.underline import Span, misread
from thalweg.language.text.windows import Clause

_SPAN, _SELECT = "thalweg_span", "thalweg_select"
_STAND_IN = "thalweg_function_"
"""User functions pass through sqlglot under names that it can't take for its own (MATCH, LEFT and many more)."""


@dataclass(frozen=True)
class Parsed:
    """A query, the clauses of CQL taken out of it, and the text that everything points into."""

    text: str
    tree: exp.Query
    tokens: tuple[Token, ...]
    windows: Mapping[int, Clause]
    watermarks: Mapping[int, Watermark]
    levels: Mapping[int, Level]
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

    def clause(self, query: exp.Expr, *kinds: TokenType) -> Span | None:
        """The first token of one of these kinds in a query, outside all parentheses."""
        depth = 0
        for i in range(bisect_left(self._starts, self.start(query)), len(self.tokens)):
            depth += nesting(self.tokens[i])
            after_dot = i > 0 and self.tokens[i - 1].token_type == TokenType.DOT
            if depth == 0 and self.tokens[i].token_type in kinds and not after_dot:
                return span_of(self.tokens[i])
            if depth < 0:
                break
        return None

    def start(self, query: exp.Expr) -> int:
        """Where the first SELECT of a query starts."""
        while not isinstance(query, exp.Select):
            query = query.this
        return int(query.expressions[0].meta[_SELECT])

    def level(self, query: exp.Expr) -> Level:
        """What the clauses of a query's own level say."""
        if isinstance(query, exp.Select):
            return self.levels[self.start(query)]
        if not isinstance(query, exp.SetOperation):
            return self.level(query.this)
        chain = [self.level(query.this)]
        while (outer := chain[-1].outer) is not None:
            chain.append(outer)
        level = self.level(query.expression)
        while level not in chain and level.outer is not None:
            level = level.outer
        return level

    def before(self, position: int) -> Sequence[Token]:
        return self.tokens[: bisect_left(self._starts, position)]

    def error(self, place: exp.Expr | Span | None, message: str, hint: str | None = None) -> QueryError:
        return misread(self.text, self.span(place) if isinstance(place, exp.Expr) else place, message, hint)

    def written(self, node: exp.Expr) -> str:
        """A node as it stands in the text."""
        span = self.span(node)
        return self.text[span.start : span.end] if span is not None else ""

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
    wrong = starts_a_query(text, tokens)
    if wrong is not None:
        raise wrong
    rest = Cut(text, tokens, functions)
    tree = _tree(text, rest.tokens)
    return Parsed(text, tree, tuple(rest.tokens), rest.windows, rest.watermarks, rest.levels, stand_ins)


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
        plus = bool(self._curr) and self._curr.token_type == TokenType.PLUS
        if plus and self._tokens[index + 1 : index + 2] and self._tokens[index + 1].token_type != TokenType.NUMBER:
            # sqlglot drops the sign, which in Spark makes a number of a text
            self.raise_error("leave out the plus sign, or write CAST(... AS DOUBLE) to make a text a number")
        return self._noted(super()._parse_unary(), index)

    def _parse_select(self, *given: bool, **named: bool) -> exp.Expr | None:
        index = self._index
        return self._noted(super()._parse_select(*given, **named), index)

    def _parse_projections(self) -> tuple[list[exp.Expr], list[exp.Expr] | None]:
        """Notes where the SELECT of these projections starts."""
        index = self._index
        while index > 0 and self._tokens[index].token_type != TokenType.SELECT:
            index -= 1
        found = super()._parse_projections()
        if found[0]:
            found[0][0].meta[_SELECT] = self._tokens[index].start
        return found

    def raise_error(self, message: str, token: Token | None = None) -> None:
        place = token or self._curr or self._prev
        raise _Misread(message, place if place else None, at_end=not token and not self._curr)


def _tree(text: str, tokens: Sequence[Token]) -> exp.Query:
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
    tree = trees[0] if len(trees) == 1 else None
    while isinstance(tree, exp.Subquery) and not tree.args.get("alias") and tree.is_wrapper:
        tree = tree.this
    if not isinstance(tree, exp.Select | exp.SetOperation):
        raise QueryError("a query is a SELECT", hint="for example SELECT * FROM s [RANGE 10 SECONDS]")
    for select in tree.find_all(exp.Select):
        if not select.expressions:
            raise misread(text, None, "the select list is empty", "SELECT * gives all columns")
        if _SELECT not in select.expressions[0].meta:  # FROM s alone, or TABLE s, which other dialects know
            raise misread(text, None, "a query starts with SELECT", "SELECT * FROM s")
    return tree


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
