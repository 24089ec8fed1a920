"""What SQL has and this language does not: refused by name, at its place, with a way around it."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from thalweg.language.bind.aggregates import is_aggregate_call
from thalweg.language.bind.scope import Scope, own
from thalweg.language.bind.world import World
from thalweg.language.text.parse import Parsed

_CLAUSES: dict[str, tuple[str, tuple[TokenType, ...], str | None]] = {
    "sort": ("SORT BY", (TokenType.SORT_BY,), None),
    "cluster": ("CLUSTER BY", (TokenType.CLUSTER_BY,), None),
    "distribute": ("DISTRIBUTE BY", (TokenType.DISTRIBUTE_BY,), None),
    "order": ("ORDER BY", (TokenType.ORDER_BY,), None),
    "limit": ("LIMIT", (TokenType.LIMIT, TokenType.FETCH), None),
    "offset": ("OFFSET", (TokenType.OFFSET,), None),
    "qualify": ("QUALIFY", (TokenType.QUALIFY,), "filter in a query around it: SELECT ... FROM (SELECT ...) WHERE ..."),
    "windows": ("a named window", (TokenType.WINDOW,), "a window for the whole query is WINDOW 10 SECONDS"),
    "laterals": ("LATERAL VIEW", (TokenType.LATERAL,), "explode the column in the DataFrame that you pass"),
    "pivots": ("PIVOT", (TokenType.PIVOT, TokenType.UNPIVOT), "count with FILTER (WHERE ...), one for each column"),
    "sample": ("TABLESAMPLE", (TokenType.TABLE_SAMPLE,), "sample the DataFrame that you pass"),
}
_KNOWN = {"expressions", "from_", "joins", "where", "hint", "kind", "with_", "distinct", "group", "having"}
_SORTING = ("order", "limit", "offset")
_NESTED = "sort and limit the outermost query: what is inside has no order"
_PARTS: tuple[tuple[tuple[type[exp.Expr], ...], str, str], ...] = (
    ((exp.UDTF, exp.Explode, exp.Inline, exp.Aliases), "functions that make rows",
     "explode the column in the DataFrame that you pass"),
    ((exp.Placeholder, exp.Parameter, exp.SessionParameter), "parameters", "write the value itself"),
)  # fmt: skip
_CHANGING = frozenset(["rand", "randn", "random", "uuid", "shuffle", "monotonically_increasing_id", "now", "randstr",
                       "uniform", "spark_partition_id", "input_file_name", "current_timestamp", "localtimestamp",
                       "current_date", "curdate", "current_time", "unix_timestamp"])  # fmt: skip


def refuse_clauses(parsed: Parsed, select: exp.Select, outermost: bool) -> None:
    """Raise for the first clause of a SELECT that is not supported, or if FROM is missing."""
    for key, value in select.args.items():
        if value and key not in _KNOWN and not (key in _SORTING and outermost):
            _, kinds, hint = _CLAUSES.get(key, ("", (), None))
            place = parsed.clause(select, *kinds)
            if key in _SORTING:
                raise parsed.error(place, f"{clause_name(key)} inside a query is not supported", _NESTED)
            raise parsed.error(place, f"{clause_name(key)} is not supported", hint)
    if select.args.get("kind"):
        raise parsed.error(parsed.clause(select, TokenType.STRUCT), "SELECT AS is not supported")
    distinct = select.args.get("distinct")
    if distinct is not None and distinct.args.get("on"):
        raise parsed.error(parsed.clause(select, TokenType.DISTINCT), "DISTINCT ON is not supported",
                           "group by its columns and take first(...) of the others")  # fmt: skip
    if not select.args.get("from_"):
        raise parsed.error(None, "FROM is missing", "for example SELECT * FROM s [RANGE 10 SECONDS]")


def refuse_modifiers(parsed: Parsed, query: exp.SetOperation, outermost: bool) -> None:
    """Raise for clauses after a UNION and the like that are not supported."""
    for key in _SORTING:
        if query.args.get(key) and not outermost:
            raise parsed.error(query.args[key], f"{clause_name(key)} inside a query is not supported", _NESTED)


def clause_name(key: str) -> str:
    """What sqlglot calls a clause, in SQL."""
    return _CLAUSES[key][0] if key in _CLAUSES else key.strip("_").upper()


def clause_hint(key: str) -> str | None:
    return _CLAUSES[key][2] if key in _CLAUSES else None


def refuse_in(scope: Scope, node: exp.Expr, selected: bool) -> None:
    """Raise for anything below a node that has no meaning in a condition or, if `selected`, in the select list."""
    world, parsed = scope.world, scope.parsed
    for part in own(node, scope.resolved):
        name = part.name.lower() if isinstance(part, exp.Anonymous) else ""
        for kinds, message, hint in _PARTS:
            if isinstance(part, kinds):
                raise parsed.error(part, f"{message} are not supported", hint)
        if name in ("istream", "dstream", "rstream"):
            raise parsed.error(part, f"{name.capitalize()} can't be used here",
                               f"around a query, {name.upper()}(SELECT ...), or around its whole select list")  # fmt: skip
        if not selected and id(part) not in scope.resolved:
            _refuse_in_condition(world, part)


def _refuse_in_condition(world: World, part: exp.Expr) -> None:
    parsed = world.parsed
    if isinstance(part, exp.Window):
        raise parsed.error(part, "window functions can't be used in a condition",
                           "filter in a query around it: SELECT ... FROM (SELECT ... OVER (...) AS x ...) WHERE x > 1")  # fmt: skip
    if is_aggregate_call(world, part):
        raise parsed.error(part, f"an aggregate can't be used in WHERE or ON: {_called(parsed, part)}",
                           "use HAVING, or compare with a subquery: x > (SELECT avg(x) FROM ...)")  # fmt: skip
    own_function = isinstance(part, exp.Anonymous) and part.name in parsed.functions
    if not own_function and isinstance(part, exp.Func) and not isinstance(part, exp.Connector):
        word = _called(parsed, part).lower()
        # unix_timestamp(x) depends on x alone, unix_timestamp() on the clock.
        fixed = word == "unix_timestamp" and part.find(exp.Column) is not None
        if word in _CHANGING and not fixed:
            raise parsed.error(part, f"{word} gives a different answer each time it is called",
                               "a replayed batch must give the same rows: use a column instead")  # fmt: skip


def _called(parsed: Parsed, part: exp.Expr) -> str:
    """The name under which a function was called."""
    word = parsed.written(part).partition("(")[0].strip()
    return word if word.replace("_", "a").isalnum() else part.key
