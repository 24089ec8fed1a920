"""A predicate as the user gives it: a function over columns or a piece of SQL, and the guards it waits for."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, overload

from thalweg.errors import DefinitionError
from thalweg.language.functions import Kind, is_udf, signature, udf_result


@dataclass(frozen=True)
class Predicate:
    """One conjunct. Exactly one of `function` and `sql` is set."""

    name: str
    function: Callable[..., Any] | None = None
    columns: tuple[str, ...] = ()
    kind: Kind = "row"
    after: tuple[str, ...] = ()
    sql: Any = None
    """SQL text, or a pyspark Column."""

    def __call__(self, *values: Any) -> Any:
        """Call the function itself, as if it had not been made a predicate."""
        if self.function is None:
            raise TypeError(f"'{self.name}' is SQL, which only Spark evaluates")
        return self.function(*values)

    def __repr__(self) -> str:
        if self.function is None:
            return f"pred({self.name!r})"
        guard = f", after={list(self.after)}" if self.after else ""
        return f"pred({self.name}, {', '.join(map(repr, self.columns))}, kind={self.kind!r}{guard})"


def pred(
    function: Callable[..., Any] | str, *columns: str,
    kind: Kind | None = None, name: str | None = None, after: str | Predicate | Sequence[str | Predicate] = (),
) -> Predicate:  # fmt: skip
    """A predicate over columns.

    Parameters
    ----------
    function
        A row function, an Arrow function (arrays in, boolean array out), a pandas function, a pyspark `udf`,
        `pandas_udf` or `arrow_udf`, or SQL text.
    columns
        The columns it takes, in order; by default those named like its parameters.
    kind
        "row", "arrow" or "pandas"; by default read from the annotations or the udf, else "row".
    name
        Its name in explain, events and `after=`; by default the function's name.
    after
        Guards: predicates, or their names, that must hold before this one is tried.

    >>> big = pred(lambda size: size > 10, name="big")
    >>> big, pred(lambda size: 1 / size > 0, name="inverse", after=[big])
    (pred(big, 'size', kind='row'), pred(inverse, 'size', kind='row', after=['big']))
    """
    waited = (after,) if isinstance(after, str | Predicate) else tuple(after)
    guards = tuple(g.name if isinstance(g, Predicate) else g for g in waited)
    if isinstance(function, str):
        if columns or kind:
            raise DefinitionError("SQL text names its columns itself", hint="pred('a > 1', name=..., after=...)")
        return Predicate(name or function, after=guards, sql=function)
    if not callable(function):
        raise DefinitionError(f"a predicate is a function or SQL text, not a {type(function).__name__}")
    found = signature(function)
    if is_udf(function) and udf_result(function) not in ("boolean", ""):
        shown = getattr(function, "__name__", "udf")
        raise DefinitionError(f"udf '{shown}' returns {udf_result(function)}, not boolean")
    if kind is not None and kind not in ("row", "arrow", "pandas"):
        raise DefinitionError(f"no kind '{kind}'", hint="one of 'row', 'arrow', 'pandas'")
    taken = columns or _parameters(function)
    return Predicate(name or _name(function, taken), found.call, taken, kind or found.kind, guards)


@overload
def predicate(function: Callable[..., Any], /) -> Predicate: ...


@overload
def predicate(
    *columns: str,
    kind: Kind | None = None,
    name: str | None = None,
    after: str | Predicate | Sequence[str | Predicate] = (),
) -> Callable[[Callable[..., Any]], Predicate]: ...


def predicate(
    *given: Any,
    kind: Kind | None = None,
    name: str | None = None,
    after: str | Predicate | Sequence[str | Predicate] = (),
) -> Any:
    """`pred` as a decorator, with or without arguments. What it makes can still be called like the function.

    >>> @predicate
    ... def big(size):
    ...     return size > 10
    >>> @predicate("size", after=big)
    ... def inverse(x):
    ...     return 1 / x > 0
    >>> big, inverse, big(11)
    (pred(big, 'size', kind='row'), pred(inverse, 'size', kind='row', after=['big']), True)
    """
    if len(given) == 1 and callable(given[0]):
        return pred(given[0], kind=kind, name=name, after=after)
    for column in given:
        if not isinstance(column, str):
            raise DefinitionError(
                f"@tw.predicate takes names of columns, not a {type(column).__name__}",
                hint='@tw.predicate("column", after=...)',
            )
    return lambda function: pred(function, *given, kind=kind, name=name, after=after)


def as_predicate(given: Any) -> Predicate:
    """What `where` accepts besides `pred(...)`: SQL text, a pyspark Column, or a bare function."""
    if isinstance(given, Predicate):
        return given
    if hasattr(given, "isNotNull"):
        return Predicate(str(given), sql=given)
    if isinstance(given, str) or callable(given):
        return pred(given)
    raise DefinitionError(
        f"a predicate can't be a {type(given).__name__}", hint="give tw.pred(function, 'column'), SQL text or a Column"
    )


def _parameters(function: Any) -> tuple[str, ...]:
    inner = getattr(function, "func", function)  # of a udf or a partial
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    try:
        found = inspect.signature(inner if is_udf(function) else function).parameters.values()
    except (TypeError, ValueError):
        found = None
    if found is None or any(p.kind not in plain for p in found):
        shown = getattr(inner, "__name__", "the predicate")
        raise DefinitionError(f"which columns does {shown} take?", hint=f"name them: pred({shown}, 'column', ...)")
    return tuple(p.name for p in found if p.default is inspect.Parameter.empty)


def _name(function: Callable[..., Any], columns: Sequence[str]) -> str:
    given = getattr(function, "__name__", None) or type(function).__name__
    return f"lambda({', '.join(columns)})" if given == "<lambda>" else str(given)
