"""One window, from the tokens between its brackets. Windows: Arasu, Babu and Widom, CQL; thesis 2.1."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation

from sqlglot.tokenizer_core import Token, TokenType

from thalweg.errors import did_you_mean
from thalweg.language.durations import UNITS, unit
from thalweg.language.query import Window
from thalweg.language.text.tokens import is_word, span_of
from thalweg.language.text.underline import Span, misread

FORMS = (
    "a window is [RANGE 10 SECONDS], [RANGE 1 HOUR SLIDE 10 MINUTES], [ROWS 1000], [PARTITION BY a, b ROWS 10], [NOW], "
    "[UNBOUNDED] or a function of yours, [name]"
)
AMOUNTS = {TokenType.NUMBER, TokenType.STRING, TokenType.INTERVAL}
_LARGEST = 2**63 - 1


@dataclass(frozen=True)
class Clause:
    """A window as written: what it means, where it stands, and where each PARTITION BY column stands."""

    window: Window
    span: Span
    by: tuple[Span, ...] = ()


class Reader:
    """Reads one window. The first and the last token are its brackets (or WINDOW and anything)."""

    def __init__(self, text: str, tokens: Sequence[Token], functions: Collection[str] = ()) -> None:
        self.text = text
        self.functions = functions
        self.tokens = tokens
        self.span = span_of(*tokens)
        self.i = 1

    def window(self) -> Clause:
        if self._done():
            raise self._fail("an empty window", span=self.span)
        clause = self._clause()
        if not self._done() and is_word(self._here(), "SLIDE"):
            clause = self._slide(clause)
        if not self._done():
            rest = span_of(self._here(), self.tokens[-2])
            raise self._fail(f"'{self._written(rest)}' is not expected in a window", span=rest)
        return clause

    def _slide(self, clause: Clause) -> Clause:
        word = self._here()
        if clause.window.kind != "range":
            raise self._fail("SLIDE belongs to RANGE", "for example [RANGE 1 HOUR SLIDE 10 MINUTES]")
        self.i += 1
        length = self.duration()
        if length == 0:
            raise self._fail("SLIDE takes a length above zero", span=span_of(word, self.tokens[self.i - 1]))
        return replace(clause, window=replace(clause.window, slide=length))

    def _clause(self) -> Clause:
        if self._take("NOW"):
            return Clause(Window("now"), self.span)
        if self._take("UNBOUNDED"):
            return Clause(Window("unbounded"), self.span)
        places: tuple[Span, ...] = ()
        if self._take("RANGE"):
            if not self._take("UNBOUNDED"):
                return Clause(Window("range", span=self.duration()), self.span)
        elif self._take("ROWS", "ROW"):
            if not self._take("UNBOUNDED"):
                return Clause(Window("rows", rows=self._count()), self.span)
        elif self._take("PARTITION BY") or (self._take("PARTITION") and self._take("BY")):
            names, places = self._names()
            if not self._take("ROWS", "ROW"):
                raise self._fail("PARTITION BY needs ROWS and a number", "for example [PARTITION BY a ROWS 10]")
            if not self._take("UNBOUNDED"):
                return Clause(Window("partition", rows=self._count(), by=names), self.span, places)
        elif name := self._function():
            return Clause(Window("custom", name=name), self.span)
        else:
            words = ["RANGE", "ROWS", "PARTITION BY", "NOW", "UNBOUNDED"]
            hint = did_you_mean(self._here().text.upper(), words) if self._here().text.isalpha() else None
            raise self._fail(f"no window starts with '{self._written(span_of(self._here()))}'", hint)
        return Clause(Window("unbounded"), self.span, places)

    def duration(self) -> int:
        """Microseconds: numbers with units, which add up."""
        total = Decimal(0)
        begin = self._here()
        while not self._done():
            self._take("INTERVAL")
            if not self._done() and self._here().token_type == TokenType.STRING and " " in self._here().text.strip():
                total += self._quoted()
                if not self._done() and self._here().token_type not in AMOUNTS:
                    break
                continue
            value, span = self._number()
            if self._done():
                raise self._fail("a unit of time is missing here", "for example RANGE 10 SECONDS", span)
            total += value * self._unit(self._here().text, span_of(self._here()))
            self.i += 1
            if not self._done() and self._here().token_type not in AMOUNTS:
                break
        span = span_of(begin, self.tokens[max(1, self.i - 1)])
        if begin is self.tokens[-1]:
            raise self._fail("the length is missing", "for example RANGE 10 SECONDS", self.span)
        if total != int(total):
            raise self._fail("a window is a whole number of microseconds", span=span)
        if total > _LARGEST:
            raise self._fail("this window is too long", "[UNBOUNDED] keeps everything", span)
        return int(total)

    def _function(self) -> str | None:
        """The name of a user's function that stands alone."""
        found = [f for f in self.functions if f.lower() == self._here().text.lower()]
        if len(self.tokens) != 3 or not found:
            return None
        self.i += 1
        exact = self.tokens[1].text
        return exact if exact in found else found[0]

    # -- words

    def _here(self) -> Token:
        return self.tokens[self.i]

    def _done(self) -> bool:
        return self.i >= len(self.tokens) - 1

    def _take(self, *words: str) -> bool:
        if not self._done() and is_word(self._here(), *words):
            self.i += 1
            return True
        return False

    def _written(self, span: Span) -> str:
        return self.text[span.start : span.end]

    def _fail(self, message: str, hint: str | None = None, span: Span | None = None) -> Exception:
        return misread(self.text, span or span_of(self._here()), message, hint or FORMS)

    # -- amounts

    def _names(self) -> tuple[tuple[str, ...], tuple[Span, ...]]:
        names: list[Token] = []
        while True:
            missing = self._done() or self._here().token_type in (TokenType.COMMA, TokenType.NUMBER)
            if missing or is_word(self._here(), "ROWS"):
                raise self._fail("a column's name is missing", "for example [PARTITION BY a, b ROWS 10]")
            names.append(self._here())
            self.i += 1
            if self._done() or self._here().token_type != TokenType.COMMA:
                return tuple(n.text for n in names), tuple(span_of(n) for n in names)
            self.i += 1

    def _number(self) -> tuple[Decimal, Span]:
        """A number, perhaps with thousands separators: 10,000."""
        negative = self._here().token_type == TokenType.DASH and not self._done()
        first = self._here()
        if negative:
            self.i += 1
        if self._done() or self._here().token_type not in (TokenType.NUMBER, TokenType.STRING):
            raise self._fail("a number is missing here")
        last = self._here()
        self.i += 1
        digits = last.text
        while (group := self._group()) is not None:
            ungrouped = len(digits) > 3 and "," not in self._written(span_of(first, last))
            if "." in digits or len(group.text.split(".")[0]) != 3 or ungrouped:
                raise self._fail("thousands are separated in groups of three digits", "10,000 or 10000",
                                 span_of(first, group))  # fmt: skip
            digits += group.text
            last = group
            self.i += 2
        span = span_of(first, last)
        try:
            value = Decimal(digits.strip())
        except InvalidOperation:
            value = Decimal("NaN")
        if not value.is_finite():
            raise self._fail(f"'{self._written(span)}' is not a number", span=span)
        if negative or value < 0:
            raise self._fail("a window has no negative length", "leave the sign out", span)
        return value, span

    def _group(self) -> Token | None:
        """The number after a comma, if both come next."""
        if self.i + 1 >= len(self.tokens) - 1 or self._here().token_type != TokenType.COMMA:
            return None
        group = self.tokens[self.i + 1]
        return group if group.token_type == TokenType.NUMBER else None

    def _count(self) -> int:
        value, span = self._number()
        if value != int(value) or not 0 < value <= _LARGEST:
            raise self._fail("ROWS takes a whole number, at least 1", "for example [ROWS 1000]", span)
        return int(value)

    def _quoted(self) -> Decimal:
        """INTERVAL '10 seconds'."""
        span = span_of(self._here())
        words = self._here().text.replace(",", "").split()
        self.i += 1
        if len(words) % 2:
            raise self._fail(f"'{' '.join(words)}' is not a length of time", "for example '10 seconds'", span)
        total = Decimal(0)
        for digits, name in zip(words[::2], words[1::2], strict=True):
            if not digits.replace(".", "", 1).isdecimal():
                raise self._fail(f"'{digits}' is not a number", "for example '10 seconds'", span)
            total += Decimal(digits) * self._unit(name, span)
        return total

    def _unit(self, word: str, span: Span) -> int:
        found = unit(word)
        if found is not None:
            return found
        if word.lower().rstrip("s") in ("month", "year", "quarter"):
            raise self._fail(f"a {word.lower().rstrip('s')} has no fixed length", "give a number of days", span)
        raise self._fail(f"'{word}' is not a unit of time", did_you_mean(word, [u + "s" for u in UNITS]), span)
