"""What SQL has and this language does not: refused by name, at its place, with a way around it."""

from __future__ import annotations

from itertools import takewhile

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from thalweg.language.text.parse import Parsed
from thalweg.language.text.single import NO_PARTNER
from thalweg.language.text.tokens import is_word, span_of

_AFTERWARDS = "compute it on the DataFrame that the query gives"
_CLAUSES: dict[str, tuple[str, tuple[TokenType, ...], str | None]] = {
    "with_": ("WITH", (TokenType.WITH,), None),
    "distinct": ("DISTINCT", (TokenType.DISTINCT,), "drop duplicates in the DataFrame that the query gives"),
    "group": ("GROUP BY", (TokenType.GROUP_BY,), "group the DataFrame that the query gives"),
    "having": ("HAVING", (TokenType.HAVING,), "filter the DataFrame that the query gives"),
    "order": ("ORDER BY", (TokenType.ORDER_BY,), "a stream never ends, so it can't be sorted"),
    "sort": ("SORT BY", (TokenType.SORT_BY,), None),
    "cluster": ("CLUSTER BY", (TokenType.CLUSTER_BY,), None),
    "distribute": ("DISTRIBUTE BY", (TokenType.DISTRIBUTE_BY,), None),
    "limit": ("LIMIT", (TokenType.LIMIT, TokenType.FETCH), "limit the DataFrame that the query gives"),
    "offset": ("OFFSET", (TokenType.OFFSET,), None),
    "qualify": ("QUALIFY", (TokenType.QUALIFY,), None),
    "windows": ("a named window", (TokenType.WINDOW,), "a window for the whole query is WINDOW 10 SECONDS"),
    "laterals": ("LATERAL VIEW", (TokenType.LATERAL,), None),
    "pivots": ("PIVOT", (TokenType.PIVOT, TokenType.UNPIVOT), None),
    "sample": ("TABLESAMPLE", (TokenType.TABLE_SAMPLE,), None),
}
_KNOWN = {"expressions", "from_", "joins", "where", "hint", "kind"}
_PARTS: tuple[tuple[tuple[type[exp.Expr], ...], str, str | None], ...] = (
    ((exp.Window, exp.WithinGroup), "window functions", _AFTERWARDS),
    ((exp.Select, exp.SetOperation, exp.Subquery), "subqueries", None),
    ((exp.UDTF, exp.Explode, exp.Inline, exp.Aliases), "functions that make rows", _AFTERWARDS),
    ((exp.Placeholder, exp.Parameter, exp.SessionParameter), "parameters", "write the value itself"),
)
_AGGREGATES = frozenset(
    ["any", "some", "every", "bool_and", "bool_or", "count_if", "max_by", "min_by", "mode", "listagg", "string_agg",
     "try_sum", "try_avg", "histogram_numeric", "count_min_sketch", "percentile_cont", "percentile_disc"]
)  # fmt: skip
"""Aggregates of Spark that sqlglot may take for plain functions."""
_CHANGING = frozenset(["rand", "randn", "random", "uuid", "shuffle", "monotonically_increasing_id", "now", "randstr",
                       "uniform", "spark_partition_id", "input_file_name", "current_timestamp", "localtimestamp",
                       "current_date", "curdate", "current_time", "unix_timestamp"])  # fmt: skip
_JOINS = {
    "ASOF": "for the latest row of b before each of a: FROM a [NOW], b [PARTITION BY k ROWS 1] WHERE a.k = b.k",
    "SEMI": "JOIN gives a result for each partner; drop duplicates in the DataFrame that the query gives",
    "ANTI": NO_PARTNER,
    "NATURAL": "name the columns: JOIN ... USING (a, b)",
    "OUTER": "JOIN keeps pairs that match, CROSS JOIN keeps all pairs",
}
_JOIN_WORDS = ("JOIN", "OUTER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI", "NATURAL", "ASOF", "INNER", "CROSS")


def refuse_clauses(parsed: Parsed) -> None:
    """Raise for the first clause of the SELECT that is not supported, or if FROM or the select list is missing."""
    for key, value in parsed.select.args.items():
        if value and key not in _KNOWN:
            _, kinds, hint = _CLAUSES.get(key, ("", (), None))
            raise parsed.error(parsed.clause(*kinds), f"{clause_name(key)} is not supported yet", hint)
    if parsed.select.args.get("kind"):
        raise parsed.error(parsed.clause(TokenType.STRUCT), "SELECT AS is not supported yet")
    if not parsed.select.args.get("from_"):
        raise parsed.error(None, "FROM is missing", "for example SELECT * FROM s [RANGE 10 SECONDS]")
    if not parsed.select.expressions:
        raise parsed.error(parsed.clause(TokenType.SELECT), "the select list is empty", "SELECT * gives all columns")


def clause_name(key: str) -> str:
    """What sqlglot calls a clause, in SQL."""
    return _CLAUSES[key][0] if key in _CLAUSES else key.strip("_").upper()


def refuse_join(parsed: Parsed, join: exp.Join, start: int | None) -> None:
    """Raise unless it is a plain JOIN or a CROSS JOIN; `start` is where the joined table's name starts."""
    words = " ".join(str(join.args.get(k) or "").upper() for k in ("method", "side", "kind")).split()
    if any(w not in ("INNER", "CROSS") for w in words):
        hint = next((_JOINS[w] for w in words if w in _JOINS), _JOINS["OUTER"])
        name = " ".join(w for w in words if w != "INNER")
        written = list(takewhile(lambda t: is_word(t, *_JOIN_WORDS), reversed(parsed.before(start or 0))))
        span = span_of(written[-1], written[0]) if written else None
        raise parsed.error(span, f"{name} JOIN is not supported yet", hint)
    for key in ("match_condition", "global_", "hint", "pivots"):
        if join.args.get(key):
            raise parsed.error(join, f"{key.strip('_').upper()} is not supported yet")


def refuse_in(parsed: Parsed, node: exp.Expr, selected: bool) -> None:
    """Raise for anything below a node that has no meaning in a condition or, if `selected`, in the select list."""
    for part in node.walk():
        name = part.name.lower() if isinstance(part, exp.Anonymous) else ""
        own = isinstance(part, exp.Anonymous) and part.name in parsed.functions
        for kinds, message, hint in _PARTS:
            if isinstance(part, kinds):
                raise parsed.error(part, f"{message} are not supported yet", hint)
        if isinstance(part, exp.AggFunc) or name in _AGGREGATES:
            raise parsed.error(part, f"aggregates are not supported yet: {_called(parsed, part)}", _AFTERWARDS)
        if name in ("istream", "dstream", "rstream"):
            raise parsed.error(part, f"{name.capitalize()} can't be used here", "leave it out")
        if selected and own:
            raise parsed.error(part, "Python functions in the select list are not supported yet", _AFTERWARDS)
        if not selected and not own and isinstance(part, exp.Func) and not isinstance(part, exp.Connector):
            word = _called(parsed, part).lower()
            # unix_timestamp(x) depends on x alone, unix_timestamp() on the clock.
            fixed = word == "unix_timestamp" and part.find(exp.Column) is not None
            if word in _CHANGING and not fixed:
                raise parsed.error(part, f"{word} gives a different answer each time it is called",
                                   "a replayed batch must give the same rows: use a column instead")  # fmt: skip


def _called(parsed: Parsed, part: exp.Expr) -> str:
    """The name under which a function was called."""
    span = parsed.span(part)
    written = parsed.text[span.start : span.end] if span else ""
    word = written.partition("(")[0].strip()
    return word if word.replace("_", "a").isalnum() else part.key
