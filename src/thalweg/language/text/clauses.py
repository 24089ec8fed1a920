"""The clauses of CQL that are not SQL: windows in brackets, WINDOW for the whole query, and Istream.

They are taken out of the token stream, and what remains is SQL whose tokens keep their places. Only brackets after a
name in FROM are windows, so array subscripts stay where they are. CQL: Arasu, Babu and Widom.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot.tokenizer_core import Token, TokenType

from thalweg.language.query import Window
from thalweg.language.text.tokens import closing, is_word, span_of
from thalweg.language.text.underline import misread
from thalweg.language.text.windows import AMOUNTS, FORMS, Clause, Reader

_OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE}
_CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE}
_CLAUSES = {
    TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.ORDER_BY, TokenType.SORT_BY, TokenType.CLUSTER_BY,
    TokenType.DISTRIBUTE_BY, TokenType.LIMIT, TokenType.WINDOW, TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT,
    TokenType.QUALIFY,
}  # fmt: skip


class Cut:
    """The tokens of a single SELECT block without CQL's own clauses."""

    def __init__(self, text: str, tokens: Sequence[Token]) -> None:
        self.tokens: list[Token] = []
        self.windows: dict[int, Clause] = {}
        """By where the name of the window's stream starts."""
        self.every: Clause | None = None
        """The query-level WINDOW."""
        self._text = text
        self._all = tokens
        self._walk()

    def _walk(self) -> None:
        place = "select"  # select → name, table or on (the parts of FROM) → rest
        name = 0  # where the name of the current stream starts
        depth = 0
        i = 0
        while i < len(self._all):
            token = self._all[i]
            kind = token.token_type
            named = bool(self.tokens) and self.tokens[-1].token_type == TokenType.DOT  # a keyword after a dot is a name
            if depth == 0 and not named:
                inside = place not in ("select", "rest")
                starts = kind == TokenType.FROM and place == "select"
                if starts or (inside and kind in (TokenType.COMMA, TokenType.JOIN)):
                    place = "name"
                elif inside and kind in (TokenType.ON, TokenType.USING):
                    place = "on"
                elif place != "select" and kind in _CLAUSES:
                    if kind == TokenType.WINDOW and self._number_at(i + 1):
                        i = self._whole_query(i)
                        continue
                    place = "rest" if kind != TokenType.WINDOW else place
                elif place == "name":
                    name, place = token.start, "table"
            if kind == TokenType.L_BRACKET:
                if place == "table" and depth == 0:
                    i = self._bracket(i, name)
                    continue
                self._misplaced(i)
            depth += (kind in _OPENING) - (kind in _CLOSING)
            self.tokens.append(token)
            i += 1

    def _number_at(self, i: int) -> bool:
        return i < len(self._all) and self._all[i].token_type in (TokenType.NUMBER, TokenType.INTERVAL)

    def _amount_at(self, i: int) -> bool:
        """Whether a token belongs to a length of time: a number, a comma inside one, or a unit after one."""
        before, kind = self._all[i - 1].token_type, self._all[i].token_type
        unit = kind == TokenType.VAR and before in (TokenType.NUMBER, TokenType.STRING)
        return unit or kind in AMOUNTS or (kind == TokenType.COMMA and self._number_at(i + 1))

    def _bracket(self, i: int, name: int) -> int:
        """Read the window that opens at i; the position after it."""
        end = next((k for k in range(i, len(self._all)) if self._all[k].token_type == TokenType.R_BRACKET), None)
        if end is None:
            raise misread(self._text, span_of(self._all[i]), "this bracket is never closed", FORMS)
        clause = Reader(self._text, self._all[i : end + 1]).window()
        if name in self.windows:
            raise misread(self._text, clause.span, "a second window on the same stream", "keep one of them")
        self.windows[name] = clause
        return end + 1

    def _whole_query(self, i: int) -> int:
        """Read the query-level WINDOW at i; the position after it."""
        end = i + 1
        while end < len(self._all) and self._amount_at(end):
            end += 1
        tokens = self._all[i:end]
        span = span_of(*tokens)
        if self.every is not None:
            raise misread(self._text, span, "WINDOW is given twice", "keep one of them")
        reader = Reader(self._text, [*tokens, tokens[-1]])
        self.every = Clause(Window("range", span=reader.duration()), span)
        return end

    def _misplaced(self, i: int) -> None:
        """A subscript may stand here, a window may not."""
        after = self._all[i + 1 : i + 3]
        if len(after) == 2 and (
            (is_word(after[0], "RANGE", "ROWS") and after[1].token_type == TokenType.NUMBER)
            or is_word(after[0], "PARTITION", "PARTITION BY")
        ):
            raise misread(
                self._text, span_of(self._all[i], *after), "a window can't be used here",
                "write it right after its stream in FROM: s [RANGE 10 SECONDS] AS a",
            )  # fmt: skip


def without_istream(text: str, tokens: list[Token]) -> list[Token]:
    """Every query here means Istream, so it may be written around the block or around the select list."""
    while len(tokens) > 2 and _streams(text, tokens, 0) and tokens[2].token_type == TokenType.SELECT:
        end = _closing(text, tokens, 1)
        if tokens[end + 1 :]:
            raise misread(text, span_of(*tokens[end + 1 :]), "nothing may follow Istream(...)", "put it inside")
        tokens = tokens[2:end]
    if len(tokens) > 3 and tokens[0].token_type == TokenType.SELECT and _streams(text, tokens, 1):
        end = _closing(text, tokens, 2)
        if end + 1 < len(tokens) and tokens[end + 1].token_type != TokenType.FROM:
            raise misread(
                text, span_of(tokens[1], tokens[end]), "Istream must enclose the whole select list",
                "leave it out: every query here means Istream",
            )  # fmt: skip
        tokens = [tokens[0], *tokens[3:end], *tokens[end + 1 :]]
    return tokens


def _streams(text: str, tokens: list[Token], i: int) -> bool:
    """Whether a relation-to-stream operator opens here; only Istream is supported."""
    if tokens[i + 1].token_type != TokenType.L_PAREN:
        return False
    if is_word(tokens[i], "DSTREAM", "RSTREAM"):
        raise misread(text, span_of(tokens[i]), f"{tokens[i].text} is not supported yet",
                      "leave it out: a result is emitted once, when the newest of its rows arrives")  # fmt: skip
    return is_word(tokens[i], "ISTREAM")


def _closing(text: str, tokens: list[Token], opening: int) -> int:
    end = closing(tokens, opening)
    if end is None:
        raise misread(text, span_of(tokens[opening]), "this parenthesis is never closed")
    return end
