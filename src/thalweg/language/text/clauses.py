"""The clauses of CQL that are not SQL, taken out of the token stream; what remains is SQL whose tokens keep their places.

Windows in brackets after a name in FROM (brackets elsewhere are subscripts), WATERMARK after a stream, WINDOW and EVERY
at the end of a query, and Istream, Dstream, Rstream around a query or its select list. CQL: Arasu, Babu and Widom.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from sqlglot.tokenizer_core import Token, TokenType

from thalweg.errors import QueryError
from thalweg.language.query import Window
from thalweg.language.text.tokens import closing, is_word, span_of
from thalweg.language.text.underline import Span, misread
from thalweg.language.text.windows import AMOUNTS, FORMS, Clause, Reader

StreamKind = Literal["istream", "dstream", "rstream"]
STREAMS = ("ISTREAM", "DSTREAM", "RSTREAM")
_KINDS: dict[str, StreamKind] = {"ISTREAM": "istream", "DSTREAM": "dstream", "RSTREAM": "rstream"}
_STARTS = {TokenType.SELECT, TokenType.WITH}
_CLAUSES = {
    TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.ORDER_BY, TokenType.SORT_BY, TokenType.CLUSTER_BY,
    TokenType.DISTRIBUTE_BY, TokenType.LIMIT, TokenType.WINDOW, TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT,
    TokenType.QUALIFY,
}  # fmt: skip
_FROM = ("name", "table", "on")
_BEFORE = (None, TokenType.ALIAS, TokenType.L_PAREN)
"""What stands before a query: nothing, AS in a WITH, or a parenthesis."""


@dataclass(frozen=True)
class Length:
    """A length of time as written, in microseconds."""

    micros: int
    span: Span


@dataclass(frozen=True)
class Watermark:
    """WATERMARK ts DELAY OF INTERVAL ...: the time column of a stream and how late its rows may come."""

    column: str
    delay: int
    span: Span


class Level:
    """The whole query, or one in parentheses: what its own clauses ask for."""

    def __init__(self, outer: Level | None, stream: tuple[StreamKind, Span] | None = None) -> None:
        self.outer = outer
        self.stream = stream
        """How it becomes a stream, and where that is written."""
        self.every: Length | None = None
        self.window: Clause | None = None
        """For its streams that have no window."""
        self.listed = False
        """Whether that is around the select list."""
        self.selects = 0


class _Frame:
    """A pair of parentheses. Place: start → select → name, table or on (the parts of FROM) → rest; or none."""

    def __init__(self, level: Level, place: str, opening: int) -> None:
        self.level = level
        self.place = place
        self.opening = opening
        self.name = 0
        """Where the name of the current stream starts."""


class Cut:
    """The tokens of a query without CQL's own clauses, and those clauses by where they belong."""

    def __init__(self, text: str, tokens: Sequence[Token], functions: Collection[str]) -> None:
        self.tokens: list[Token] = []
        self.windows: dict[int, Clause] = {}
        """By where the name of the window's stream starts, or the parenthesis of a query in FROM."""
        self.watermarks: dict[int, Watermark] = {}
        """By where the name of the stream starts."""
        self.levels: dict[int, Level] = {}
        """By where a SELECT starts."""
        self._text = text
        self._all = tokens
        self._functions = functions
        self._frames = [_Frame(Level(None), "start", -1)]
        self._dropped: set[int] = set()
        self._pending: tuple[StreamKind, Span] | None = None
        self._closed: Level | None = None
        """What the last token closed."""
        i = 0
        while i < len(tokens):
            i = self._step(i)

    def _step(self, i: int) -> int:
        """Take the token at i; the position of the next one."""
        if i in self._dropped:
            return i + 1
        token, frame = self._all[i], self._frames[-1]
        kind = token.token_type
        named = bool(self.tokens) and self.tokens[-1].token_type == TokenType.DOT  # a keyword after a dot is a name
        if not named and frame.place != "none":
            after = self._clause(i, frame)
            if after is not None:
                return after
        if kind == TokenType.L_BRACKET:
            if frame.place == "table":
                return self._bracket(i, frame.name)
            self._misplaced(i)
        closed = self._closed
        self._closed = None
        if kind == TokenType.L_PAREN:
            self._open(i)
        elif kind == TokenType.R_PAREN and len(self._frames) > 1:
            self._close()
        elif closed is not None and closed.stream is not None and len(self._frames) == 1 and frame.place == "start":
            raise misread(
                self._text, span_of(*self._all[i:]), f"nothing may follow {closed.stream[0].capitalize()}(...)",
                f"put it inside, or read the stream in FROM: SELECT * FROM {closed.stream[0].upper()}(SELECT ...) [NOW]",
            )  # fmt: skip
        clause = self._kind_at(i + 2, TokenType.ALIAS) and not self._kind_at(i + 1, TokenType.L_PAREN)
        if (
            kind == TokenType.WINDOW and not named and not clause
        ):  # the function window(...), or the column that it gives
            token = Token(TokenType.VAR, token.text, token.line, token.col, token.start, token.end)
        self.tokens.append(token)
        return i + 1

    def _clause(self, i: int, frame: _Frame) -> int | None:
        """Follow the clauses of a query; where a clause of CQL was read, the position after it."""
        token = self._all[i]
        kind = token.token_type
        inside = frame.place in _FROM
        if kind == TokenType.SELECT:
            self._select(i, frame)
        elif self._names_next(kind, frame):
            frame.place = "name"
        elif inside and kind in (TokenType.ON, TokenType.USING):
            frame.place = "on"
        elif self._every_at(i, frame):
            return self._every(i, frame)
        elif frame.place not in ("start", "select") and kind in _CLAUSES:
            if kind == TokenType.WINDOW:
                return self._window_clause(i, frame)
            frame.place = "rest"
        elif self._wraps(i) and (frame.place == "name" or (frame.place == "start" and self._starts_here(i, frame))):
            if frame.level.stream is not None and frame.place == "start":
                raise misread(self._text, span_of(token), "a stream can't be turned into a stream again",
                              f"keep one of {frame.level.stream[0].capitalize()} and {token.text}")  # fmt: skip
            self._pending = _KINDS[token.text.upper()], span_of(token)
            return i + 1
        elif frame.place == "name" and kind != TokenType.L_PAREN:
            frame.name, frame.place = token.start, "table"
        elif frame.place == "table" and is_word(token, "WATERMARK") and self._word_at(i + 2, "DELAY"):
            return self._watermark(i, frame.name)
        return None

    def _starts_here(self, i: int, frame: _Frame) -> bool:
        """Whether a query may start here, the first of its frame or the one after WITH."""
        first = next(t for t in self._all if t.start > frame.opening)
        return self._before() in _BEFORE or (
            first.token_type == TokenType.WITH and self._kind_at(i - 1, TokenType.R_PAREN)
        )

    def _names_next(self, kind: TokenType, frame: _Frame) -> bool:
        """Whether a stream is named after a token."""
        if kind == TokenType.FROM and frame.place == "select":
            return self._before() != TokenType.DISTINCT  # a IS DISTINCT FROM b
        return frame.place in _FROM and kind in (TokenType.COMMA, TokenType.JOIN)

    # Queries and parentheses

    def _select(self, i: int, frame: _Frame) -> None:
        level = frame.level
        level.selects += 1
        self.levels[self._all[i].start] = level
        frame.place = "select"
        k = i + 1
        while self._word_at(k, "DISTINCT", "ALL"):
            k += 1
        if k + 1 < len(self._all) and self._wraps(k, query=False):
            end = closing(self._all, k + 1)
            if end is None:
                raise misread(self._text, span_of(self._all[k + 1]), "this parenthesis is never closed")
            word = self._all[k].text.capitalize()
            if end + 1 < len(self._all) and self._all[end + 1].token_type != TokenType.FROM:
                raise misread(
                    self._text, span_of(self._all[k], self._all[end]), f"{word} must enclose the whole select list",
                    f"Select {word}(a, b) From ..., or {word}(Select a, b From ...)",
                )  # fmt: skip
            if level.stream is not None:
                raise misread(self._text, span_of(self._all[k]), "a stream can't be turned into a stream again",
                              f"keep one of {level.stream[0].capitalize()} and {word}")  # fmt: skip
            level.stream = _KINDS[self._all[k].text.upper()], span_of(self._all[k])
            self._dropped |= {k, k + 1, end}
            level.listed = True
        if level.listed and level.selects > 1 and level.stream is not None:
            word = level.stream[0].capitalize()
            raise misread(self._text, level.stream[1], f"{word} must enclose the whole query",
                          f"{word}(SELECT ... UNION SELECT ...)")  # fmt: skip

    def _open(self, i: int) -> None:
        token, frame = self._all[i], self._frames[-1]
        inner = next((t for t in self._all[i:] if t.token_type != TokenType.L_PAREN), token)
        if inner.token_type in _STARTS or self._pending is not None:
            self._frames.append(_Frame(Level(frame.level, self._pending), "start", token.start))
        elif frame.place == "name":
            self._frames.append(_Frame(frame.level, "name", token.start))
        else:
            self._frames.append(_Frame(frame.level, "none", token.start))
        self._pending = None

    def _close(self) -> None:
        done = self._frames.pop()
        frame = self._frames[-1]
        self._closed = done.level if done.level is not frame.level else None
        if frame.place == "name":
            frame.name, frame.place = done.opening, "table"

    def _wraps(self, i: int, query: bool = True) -> bool:
        """Whether a relation-to-stream operator opens here, around a query or around anything."""
        if not is_word(self._all[i], *STREAMS) or not self._kind_at(i + 1, TokenType.L_PAREN):
            return False
        inner = next((t for t in self._all[i + 1 :] if t.token_type != TokenType.L_PAREN), None)
        return not query or (inner is not None and (inner.token_type in _STARTS or is_word(inner, *STREAMS)))

    # Clauses

    def _every_at(self, i: int, frame: _Frame) -> bool:
        after = self._closed is not None and self._closed.stream is not None
        return (after or frame.place not in ("start", "select", "name")) and (
            is_word(self._all[i], "EVERY") and i + 1 < len(self._all) and self._all[i + 1].token_type in AMOUNTS
        )

    def _every(self, i: int, frame: _Frame) -> int:
        closed = self._closed
        level = closed if closed is not None and closed.stream is not None else frame.level
        micros, span, end = self._length(i)
        if level.every is not None:
            raise misread(self._text, span, "EVERY is given twice", "keep one of them")
        if micros == 0:
            raise misread(self._text, span, "EVERY takes a length above zero", "for example EVERY 10 SECONDS")
        level.every = Length(micros, span)
        return end

    def _window_clause(self, i: int, frame: _Frame) -> int | None:
        """WINDOW 10 SECONDS for all streams; None for anything else."""
        if not (i + 1 < len(self._all) and self._all[i + 1].token_type in (TokenType.NUMBER, TokenType.INTERVAL)):
            return None
        micros, span, end = self._length(i)
        if frame.level.window is not None:
            raise misread(self._text, span, "WINDOW is given twice", "keep one of them")
        frame.level.window = Clause(Window("range", span=micros), span)
        return end

    def _length(self, i: int) -> tuple[int, Span, int]:
        """The length of time after the word at i: microseconds, where it is written, and the position after it."""
        end = i + 1
        while end < len(self._all) and self._amount_at(end):
            end += 1
        tokens = self._all[i:end]
        return Reader(self._text, [*tokens, tokens[-1]]).duration(), span_of(*tokens), end

    def _watermark(self, i: int, name: int) -> int:
        column = self._all[i + 1]
        if not self._word_at(i + 3, "OF"):
            raise misread(self._text, span_of(self._all[i], self._all[i + 2]), "DELAY OF is missing here",
                          "WATERMARK ts DELAY OF INTERVAL 10 MINUTES")  # fmt: skip
        micros, span, end = self._length(i + 3)
        span = span_of(self._all[i], self._all[end - 1])
        if name in self.watermarks:
            raise misread(self._text, span, "WATERMARK is given twice", "keep one of them")
        self.watermarks[name] = Watermark(column.text, micros, span)
        return end

    def _bracket(self, i: int, name: int) -> int:
        """Read the window that opens at i; the position after it."""
        end = next((k for k in range(i, len(self._all)) if self._all[k].token_type == TokenType.R_BRACKET), None)
        if end is None:
            raise misread(self._text, span_of(self._all[i]), "this bracket is never closed", FORMS)
        clause = Reader(self._text, self._all[i : end + 1], self._functions).window()
        if name in self.windows:
            raise misread(self._text, clause.span, "a second window on the same stream", "keep one of them")
        self.windows[name] = clause
        return end + 1

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

    # Tokens

    def _amount_at(self, i: int) -> bool:
        """Whether a token belongs to a length of time: a number, a comma inside one, or a unit after one."""
        before, kind = self._all[i - 1].token_type, self._all[i].token_type
        unit = kind == TokenType.VAR and before in (TokenType.NUMBER, TokenType.STRING)
        return unit or kind in AMOUNTS or (kind == TokenType.COMMA and self._kind_at(i + 1, TokenType.NUMBER))

    def _before(self) -> TokenType | None:
        return self.tokens[-1].token_type if self.tokens else None

    def _word_at(self, i: int, *words: str) -> bool:
        return i < len(self._all) and is_word(self._all[i], *words)

    def _kind_at(self, i: int, kind: TokenType) -> bool:
        return i < len(self._all) and self._all[i].token_type == kind


def starts_a_query(text: str, tokens: Sequence[Token]) -> QueryError | None:
    """The error if this is no query at all."""
    first = next((t for t in tokens if t.token_type != TokenType.L_PAREN), None)
    if first is not None and (first.token_type in _STARTS or is_word(first, *STREAMS)):
        return None
    return misread(text, span_of(first) if first else Span(0, 1), "a query starts with SELECT")
