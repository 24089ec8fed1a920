"""The clauses of CQL that are no SQL: windows in brackets, WINDOW for the whole query, and Istream.

They are cut out of the token stream, never out of the raw text, so comments, strings and quoted names can't be taken
for them, and array subscripts stay where they are: only brackets behind a name in FROM are windows. What remains is
SQL whose tokens keep their places. Windows: Arasu, Babu and Widom, CQL; thesis 2.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation

from sqlglot.tokenizer_core import Token, TokenType

from thalweg.errors import did_you_mean
from thalweg.language.query import Window
from thalweg.language.underline import Span, misread

UNITS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
"""Microseconds of each unit."""
_LARGEST = 2**63 - 1
FORMS = "[RANGE 10 SECONDS], [ROWS 1000], [PARTITION BY a, b ROWS 10], [NOW] or [UNBOUNDED]"

_OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE}
_CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE}
_AMOUNTS = {TokenType.NUMBER, TokenType.STRING, TokenType.INTERVAL}
_CLAUSES = {
    TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.ORDER_BY, TokenType.SORT_BY, TokenType.CLUSTER_BY,
    TokenType.DISTRIBUTE_BY, TokenType.LIMIT, TokenType.WINDOW, TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT,
    TokenType.QUALIFY,
}  # fmt: skip


@dataclass(frozen=True)
class Clause:
    """A window as written: what it means, where it stands, and where each PARTITION BY column stands."""

    window: Window
    span: Span
    by: tuple[Span, ...] = ()


@dataclass(frozen=True)
class Cut:
    """A token stream without CQL's own clauses. Windows are found by where the name of their stream starts."""

    tokens: tuple[Token, ...]
    windows: dict[int, Clause] = field(default_factory=dict)
    every: Clause | None = None
    """The query-level WINDOW."""


def span_of(*tokens: Token) -> Span:
    return Span(tokens[0].start, tokens[-1].end + 1)


def is_word(token: Token, *words: str) -> bool:
    """Whether an unquoted token is one of the words, whatever the case."""
    return token.token_type not in (TokenType.IDENTIFIER, TokenType.STRING) and token.text.upper() in words


def cut(text: str, tokens: Sequence[Token]) -> Cut:
    """Take the windows and the query-level WINDOW out of the tokens of a single SELECT block."""
    return _Knife(text, list(tokens)).run()


class _Knife:
    """One walk over the tokens of a single SELECT block."""

    def __init__(self, text: str, tokens: list[Token]) -> None:
        self.text = text
        self.tokens = tokens
        self.kept: list[Token] = []
        self.windows: dict[int, Clause] = {}
        self.every: Clause | None = None

    def run(self) -> Cut:
        place = "select"  # select → name, table or on (the parts of FROM) → rest
        name = 0  # where the name of the present stream starts
        depth = 0
        i = 0
        while i < len(self.tokens):
            token = self.tokens[i]
            kind = token.token_type
            named = bool(self.kept) and self.kept[-1].token_type == TokenType.DOT  # a keyword behind a dot is a name
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
            self.kept.append(token)
            i += 1
        return Cut(tuple(self.kept), self.windows, self.every)

    def _number_at(self, i: int) -> bool:
        return i < len(self.tokens) and self.tokens[i].token_type in (TokenType.NUMBER, TokenType.INTERVAL)

    def _bracket(self, i: int, name: int) -> int:
        """Read the window that opens at i; the place behind it."""
        opening = self.tokens[i]
        end = next((k for k in range(i, len(self.tokens)) if self.tokens[k].token_type == TokenType.R_BRACKET), None)
        if end is None:
            raise misread(self.text, span_of(opening), "this bracket is never closed", f"a window is {FORMS}")
        clause = _Reader(self.text, self.tokens[i : end + 1]).window()
        if name in self.windows:
            raise misread(self.text, clause.span, "a second window on the same stream", "keep one of them")
        self.windows[name] = clause
        return end + 1

    def _whole_query(self, i: int) -> int:
        end = i + 1
        while end < len(self.tokens) and (
            self.tokens[end].token_type in _AMOUNTS
            or (self.tokens[end].token_type == TokenType.COMMA and self._number_at(end + 1))
            or (
                self.tokens[end - 1].token_type in (TokenType.NUMBER, TokenType.STRING)
                and self.tokens[end].token_type == TokenType.VAR
            )
        ):
            end += 1
        tokens = self.tokens[i:end]
        span = span_of(*tokens)
        if self.every is not None:
            raise misread(self.text, span, "WINDOW is given twice", "keep one of them")
        reader = _Reader(self.text, [*tokens, tokens[-1]])
        self.every = Clause(Window("range", span=reader.duration()), span)
        return end

    def _misplaced(self, i: int) -> None:
        """A subscript is fine here; a window is not."""
        after = self.tokens[i + 1 : i + 3]
        if len(after) == 2 and (
            (is_word(after[0], "RANGE", "ROWS") and after[1].token_type == TokenType.NUMBER)
            or is_word(after[0], "PARTITION", "PARTITION BY")
        ):
            raise misread(
                self.text, span_of(self.tokens[i], *after), "a window can't stand here",
                "write it right behind its stream in FROM: s [RANGE 10 SECONDS] AS a",
            )  # fmt: skip


class _Reader:
    """Reads one window. The first and the last token are its brackets (or WINDOW and anything)."""

    def __init__(self, text: str, tokens: list[Token]) -> None:
        self.text = text
        self.tokens = tokens
        self.span = span_of(*tokens)
        self.i = 1

    def here(self) -> Token:
        return self.tokens[self.i]

    def done(self) -> bool:
        return self.i >= len(self.tokens) - 1

    def fail(self, message: str, hint: str | None = None, span: Span | None = None) -> Exception:
        return misread(self.text, span or span_of(self.here()), message, hint or f"a window is {FORMS}")

    def take(self, *words: str) -> bool:
        if not self.done() and is_word(self.here(), *words):
            self.i += 1
            return True
        return False

    def end(self, clause: Clause) -> Clause:
        if not self.done() and is_word(self.here(), "SLIDE"):
            raise self.fail("SLIDE is not supported yet", "leave it out: results are made whenever a tuple arrives")
        if not self.done():
            rest = span_of(self.here(), self.tokens[-2])
            raise self.fail(f"'{_cut(self.text, rest)}' is not expected in a window", span=rest)
        return clause

    def window(self) -> Clause:
        if self.done():
            raise self.fail("an empty window", span=self.span)
        if self.take("NOW"):
            return self.end(Clause(Window("now"), self.span))
        if self.take("UNBOUNDED"):
            return self.end(Clause(Window("unbounded"), self.span))
        if self.take("RANGE"):
            if self.take("UNBOUNDED"):
                return self.end(Clause(Window("unbounded"), self.span))
            return self.end(Clause(Window("range", span=self.duration()), self.span))
        if self.take("ROWS", "ROW"):
            if self.take("UNBOUNDED"):
                return self.end(Clause(Window("unbounded"), self.span))
            return self.end(Clause(Window("rows", rows=self.count()), self.span))
        if self.take("PARTITION BY") or (self.take("PARTITION") and self.take("BY")):
            names, places = self.names()
            if not self.take("ROWS", "ROW"):
                raise self.fail("PARTITION BY needs ROWS and how many", "for example [PARTITION BY a ROWS 10]")
            if self.take("UNBOUNDED"):
                return self.end(Clause(Window("unbounded"), self.span, places))
            return self.end(Clause(Window("partition", rows=self.count(), by=names), self.span, places))
        words = ["RANGE", "ROWS", "PARTITION BY", "NOW", "UNBOUNDED"]
        hint = did_you_mean(self.here().text.upper(), words) if self.here().text.isalpha() else None
        raise self.fail(f"'{_cut(self.text, span_of(self.here()))}' starts no window", hint)

    def names(self) -> tuple[tuple[str, ...], tuple[Span, ...]]:
        names: list[str] = []
        places: list[Span] = []
        while True:
            missing = self.done() or self.here().token_type in (TokenType.COMMA, TokenType.NUMBER)
            if missing or is_word(self.here(), "ROWS"):
                raise self.fail("a column's name is missing", "for example [PARTITION BY a, b ROWS 10]")
            names.append(self.here().text)
            places.append(span_of(self.here()))
            self.i += 1
            if self.done() or self.here().token_type != TokenType.COMMA:
                return tuple(names), tuple(places)
            self.i += 1

    def number(self) -> tuple[Decimal, Span]:
        """A number, with thousands separators if the writer likes them: 10,000."""
        negative = self.here().token_type == TokenType.DASH and not self.done()
        first = self.here()
        if negative:
            self.i += 1
        if self.done() or self.here().token_type not in (TokenType.NUMBER, TokenType.STRING):
            raise self.fail("a number is missing here")
        digits = self.here().text
        last = self.here()
        self.i += 1
        while (
            not self.done()
            and self.here().token_type == TokenType.COMMA
            and self.i + 1 < len(self.tokens) - 1
            and self.tokens[self.i + 1].token_type == TokenType.NUMBER
        ):
            group = self.tokens[self.i + 1]
            if (
                "." in digits
                or len(group.text.split(".")[0]) != 3
                or (len(digits) > 3 and "," not in _cut(self.text, span_of(first, last)))
            ):
                raise self.fail("thousands are separated in groups of three digits", "10,000 or 10000",
                                span_of(first, group))  # fmt: skip
            digits += group.text
            last = group
            self.i += 2
        span = span_of(first, last)
        try:
            value = Decimal(digits.strip())
        except InvalidOperation:
            raise self.fail(f"'{_cut(self.text, span)}' is no number", span=span) from None
        if not value.is_finite():
            raise self.fail(f"'{_cut(self.text, span)}' is no number", span=span)
        if negative or value < 0:
            raise self.fail("a window reaches into the past by a positive amount", "leave the sign out", span)
        return value, span

    def count(self) -> int:
        value, span = self.number()
        if value != int(value) or not 0 < value <= _LARGEST:
            raise self.fail("ROWS takes a whole number of tuples, at least 1", "for example [ROWS 1000]", span)
        return int(value)

    def duration(self) -> int:
        """Microseconds: numbers with units, which add up."""
        total = Decimal(0)
        begin = self.here()
        while not self.done():
            self.take("INTERVAL")
            if not self.done() and self.here().token_type == TokenType.STRING and " " in self.here().text.strip():
                total += self.quoted()
                continue
            value, span = self.number()
            if self.done():
                raise self.fail("a unit of time is missing here", "for example RANGE 10 SECONDS", span)
            total += value * self.unit(self.here().text, span_of(self.here()))
            self.i += 1
            if not self.done() and self.here().token_type not in _AMOUNTS:
                break
        span = span_of(begin, self.tokens[max(1, self.i - 1)])
        if begin is self.tokens[-1]:
            raise self.fail("how long is missing", "for example RANGE 10 SECONDS", self.span)
        if total != int(total):
            raise self.fail("a window is a whole number of microseconds", span=span)
        if total > _LARGEST:
            raise self.fail("this is longer than time itself can count", "[UNBOUNDED] keeps everything", span)
        return int(total)

    def quoted(self) -> Decimal:
        """INTERVAL '10 seconds'."""
        span = span_of(self.here())
        words = self.here().text.replace(",", "").split()
        self.i += 1
        if len(words) % 2:
            raise self.fail(f"'{' '.join(words)}' is no length of time", "for example '10 seconds'", span)
        total = Decimal(0)
        for digits, unit in zip(words[::2], words[1::2], strict=True):
            if not digits.replace(".", "", 1).isdecimal():
                raise self.fail(f"'{digits}' is no number", "for example '10 seconds'", span)
            total += Decimal(digits) * self.unit(unit, span)
        return total

    def unit(self, word: str, span: Span) -> int:
        found = _unit(word)
        if found is not None:
            return found
        if word.lower().rstrip("s") in ("month", "year", "quarter"):
            raise self.fail(f"a {word.lower().rstrip('s')} has no fixed length", "say how many days", span)
        raise self.fail(f"'{word}' is no unit of time", did_you_mean(word, [u + "s" for u in UNITS]), span)


def _unit(word: str) -> int | None:
    word = word.lower()
    return UNITS.get(word) or UNITS.get(word.removesuffix("s"))


def _cut(text: str, span: Span) -> str:
    return text[span.start : span.end]


def without_istream(text: str, tokens: list[Token]) -> list[Token]:
    """Istream is what every query here means; it may be written around the block or around the select list."""
    while len(tokens) > 2 and _streams(text, tokens, 0) and tokens[2].token_type == TokenType.SELECT:
        end = _closing(text, tokens, 1)
        if tokens[end + 1 :] and any(t.token_type != TokenType.SEMICOLON for t in tokens[end + 1 :]):
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
                      "leave it out: a result is emitted once, when the newest of its tuples arrives")  # fmt: skip
    return is_word(tokens[i], "ISTREAM")


def _closing(text: str, tokens: list[Token], opening: int) -> int:
    depth = 0
    for k in range(opening, len(tokens)):
        depth += (tokens[k].token_type == TokenType.L_PAREN) - (tokens[k].token_type == TokenType.R_PAREN)
        if depth == 0:
            return k
    raise misread(text, span_of(tokens[opening]), "this parenthesis is never closed")
