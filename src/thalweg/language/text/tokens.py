"""SQL text to tokens: Spark's dialect, with double quotes around names (its doubleQuotedIdentifiers).

A token knows which characters it was read from. Everything after this step works on tokens, so comments, texts and
quoted names can't be mistaken for words of the language. The tests compare the values of texts with Spark's own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar

from sqlglot.dialects.spark import Spark
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from thalweg.errors import QueryError
from thalweg.language.text.underline import Span, misread

_QUOTED = re.compile(r"""--[^\n]*|'(?:\\.|[^'\\])*'|"[^"]*"|`[^`]*`|(['"`])""", re.DOTALL)
"""A comment, a text, a quoted name, or a quote that is never closed."""

_ESCAPE = re.compile(
    r"''|\\u([0-9a-fA-F]{4})|\\U(000[0-9a-fA-F]{5}|0010[0-9a-fA-F]{4})|\\([01][0-7]{2})|\\(.)", re.DOTALL
)
_NAMED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
"""Escapes of one character; any other character stands for itself."""


class CqlText(Spark):
    """Spark's dialect with double quotes around names and '' inside texts, as Spark 4 reads them."""

    class Tokenizer(Spark.Tokenizer):
        QUOTES: ClassVar[list[Any]] = ["'"]
        IDENTIFIERS: ClassVar[list[Any]] = ["`", '"']
        STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'"]
        RAW_STRINGS: ClassVar[list[Any]] = [("r'", "'"), ("R'", "'")]


def tokenized(text: str) -> list[Token]:
    """The tokens of a single query, with the values of its texts as Spark reads them."""
    try:
        tokens = CqlText().tokenize(text)
    except (TokenError, RecursionError, ValueError, OverflowError) as error:
        raise _untokenized(text, error) from None
    while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens.pop()
    for i, token in enumerate(tokens):
        if token.token_type == TokenType.SEMICOLON:
            raise misread(text, span_of(token), "one query at a time", "leave out everything after the semicolon")
        if token.token_type == TokenType.STRING and text[token.start] == "'":
            value = unescaped(text[token.start + 1 : token.end])
            tokens[i] = Token(TokenType.STRING, value, token.line, token.col, token.start, token.end, token.comments)
    return tokens


def _untokenized(text: str, error: Exception) -> QueryError:
    """Most often a quote that is never closed: the first one that no closing quote follows."""
    opened = next((m for m in _QUOTED.finditer(text) if m.group(1)), None)
    if opened is not None:
        return misread(text, Span(*opened.span()), f"the quote {opened.group(1)} is never closed")
    return QueryError("the text can't be split into words", hint=str(error).splitlines()[0] if str(error) else None)


def unescaped(inside: str) -> str:
    r"""The value of a text, given the characters between its quotes.

    >>> print(unescaped(r"it''s \x41 \101 \% \\"))
    it's x41 A \% \
    """
    return _ESCAPE.sub(_value, inside)


def _value(found: re.Match[str]) -> str:
    short, long, octal, letter = found.groups()
    if short or long:
        return chr(int(short or long, 16))
    if octal:
        return chr(int(octal, 8))
    return _NAMED.get(letter, letter) if letter else "'"


def span_of(*tokens: Token) -> Span:
    return Span(tokens[0].start, tokens[-1].end + 1)


def is_word(token: Token, *words: str) -> bool:
    """Whether an unquoted token is one of the words, in any case."""
    return token.token_type not in (TokenType.IDENTIFIER, TokenType.STRING) and token.text.upper() in words


def nesting(token: Token) -> int:
    """How a token changes the depth of parentheses."""
    return (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)


def closing(tokens: Sequence[Token], opening: int) -> int | None:
    """The position of the parenthesis that closes the one at `opening`."""
    depth = 0
    for k in range(opening, len(tokens)):
        depth += nesting(tokens[k])
        if depth == 0:
            return k
    return None
