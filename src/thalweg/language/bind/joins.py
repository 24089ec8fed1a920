"""The joins of FROM as a part. A comma binds less than JOIN; RIGHT JOIN is LEFT JOIN the other way round."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import TypeAlias

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from thalweg.language.algebra import MatchKind
from thalweg.language.bind.conditions import conjunct, split
from thalweg.language.bind.entry import Entry
from thalweg.language.bind.keys import Pair
from thalweg.language.bind.part import Full, Part, hung
from thalweg.language.bind.scope import Scope, name_start
from thalweg.language.text.quoting import quoted_column
from thalweg.language.text.tokens import is_word, span_of

_Side: TypeAlias = tuple[Part, list[Entry]]
_WORDS = ("JOIN", "OUTER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI", "NATURAL", "ASOF", "INNER", "CROSS")
_REFUSED = {
    "ASOF": "for the latest row of b before each of a: FROM a [NOW], b [PARTITION BY k ROWS 1] WHERE a.k = b.k",
    "NATURAL": "name the columns: JOIN ... USING (a, b)",
}


class Joins:
    """Walks the joins of one FROM."""

    def __init__(
        self, scope: Scope, select: exp.Select, entries: Mapping[int, Entry],
        condition: Callable[[Part, exp.Expr, Sequence[Entry]], None],
    ) -> None:  # fmt: skip
        self._scope = scope
        self._parsed = scope.parsed
        self._entries = entries
        self._condition = condition
        self._seen: list[Entry] = []
        self.part = Part()
        side = self._item(select.args["from_"].this)
        for join in select.args.get("joins") or []:
            if self._comma(join):
                self.part.join(side[0])
                side = self._item(join.this)
            else:
                side = self._joined(side, join)
        self.part.join(side[0])

    def _comma(self, join: exp.Join) -> bool:
        before = self._parsed.before(self._start(join.this))
        return bool(before) and before[-1].token_type == TokenType.COMMA

    def _start(self, node: exp.Expr) -> int:
        if id(node) in self._entries:
            return self._entries[id(node)].position
        span = self._parsed.span(node)
        return span.start if span is not None else name_start(node) or 0

    def _item(self, node: exp.Expr) -> _Side:
        """A table, a query, or joins in parentheses."""
        entry = self._entries.get(id(node))
        if entry is None:
            side = self._item(node.this)
        else:
            self._seen.append(entry)
            self._scope.show(entry)
            side = (entry.part if entry.part is not None else Part([entry])), [entry]
        for join in node.args.get("joins") or []:
            side = self._joined(side, join)
        return side

    def _joined(self, left: _Side, join: exp.Join) -> _Side:
        words = self._words(join)
        right = self._item(join.this)
        both = [*left[1], *right[1]]
        on, using = join.args.get("on"), join.args.get("using") or []
        if using and "FULL" in words:
            raise self._parsed.error(using[0], "USING with FULL JOIN is not supported",
                                     "write ON a.k = b.k, and coalesce(a.k, b.k) in SELECT")  # fmt: skip
        equal = self._scope.using(using, left[1], right[1], keep_right="RIGHT" in words)
        pairs: list[Pair] = [(a, b, n, f"{quoted_column(a)} = {quoted_column(b)}") for a, b, n in equal]
        if not any(w in words for w in ("LEFT", "RIGHT", "FULL", "SEMI", "ANTI")):
            part = left[0]
            if "CROSS" in words:
                part.crossed += [(a.alias, b.alias) for a, b in zip(left[1][-1:], right[1][:1], strict=True)]
            part.join(right[0])
            part.pairs += pairs
            if on is not None:
                self._condition(part, on, self._seen)
            return part, both
        conditions = [] if on is None else [conjunct(self._scope, n, both) for n in split(self._plain(on))]
        if "FULL" in words:
            return Part(fulls=[Full(left[0], right[0], conditions, pairs)]), both
        kept, other = (right, left) if "RIGHT" in words else (left, right)
        kind: MatchKind = "semi" if "SEMI" in words else "anti" if "ANTI" in words else "left"
        kept[0].outers.append(hung(kind, other[0], conditions, pairs, kept[0].aliases))
        if kind != "left":
            self._scope.withdraw(other[1])
            return kept[0], kept[1]
        return kept[0], both

    def _plain(self, on: exp.Expr) -> exp.Expr:
        inner = on.find(exp.Query)
        if inner is not None:
            raise self._parsed.error(inner, "a subquery in the ON of an outer join is not supported",
                                     "join the subquery in FROM")  # fmt: skip
        return on

    def _words(self, join: exp.Join) -> list[str]:
        """LEFT, SEMI and so on; refused if there is no meaning for them."""
        words = " ".join(str(join.args.get(k) or "").upper() for k in ("method", "side", "kind")).split()
        start = self._start(join.this)
        written = list(takewhile(lambda t: is_word(t, *_WORDS), reversed(self._parsed.before(start))))
        span = span_of(written[-1], written[0]) if written else None
        for word in words:
            if word in _REFUSED:
                raise self._parsed.error(span, f"{word} JOIN is not supported", _REFUSED[word])
            if word not in _WORDS:
                raise self._parsed.error(
                    span, f"{word} JOIN is not supported", "JOIN, LEFT JOIN, FULL JOIN and so on are"
                )
        if "RIGHT" in words and ("SEMI" in words or "ANTI" in words):
            raise self._parsed.error(span, f"{' '.join(words)} JOIN is not supported", "exchange the two sides")
        for key in ("match_condition", "global_", "hint", "pivots"):
            if join.args.get(key):
                raise self._parsed.error(join, f"{key.strip('_').upper()} is not supported")
        # A comma is read as CROSS by some; only the word asks for all pairs.
        crossed = any(is_word(t, "CROSS") for t in written)
        return [w for w in words if w != "CROSS"] + (["CROSS"] if crossed else [])
