"""A predicate as the user gives it: a function over columns, or a piece of SQL; how it is called; which guards it waits
for.

The kind of a function is read off its annotations (`pa.Array`, `pd.Series`) or off a pyspark udf; everything else is a
row function.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from thalweg.errors import DefinitionError
from thalweg.language.calls import Kind

UDF_KINDS: dict[int, tuple[Kind, bool]] = {
    100: ("row", False),
    101: ("row", False),
    200: ("pandas", False),
    204: ("pandas", True),
    250: ("arrow", False),
    251: ("arrow", True),
}
"""pyspark's evalType of scalar udfs: how it is called, and whether it takes an iterator of batches."""


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
        "row", "arrow" or "pandas"; by default read off the annotations or the udf, else "row".
    name
        What explain, events and `after=` call it; by default the function's name.
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
    read, called = _read(function)
    if kind is not None and kind not in ("row", "arrow", "pandas"):
        raise DefinitionError(f"no kind '{kind}'", hint="one of 'row', 'arrow', 'pandas'")
    taken = columns or _parameters(function)
    return Predicate(name or _name(function, taken), called, taken, kind or read, guards)


def as_predicate(given: Any) -> Predicate:
    """What `where` accepts beside `pred(...)`: SQL text, a pyspark Column, or a bare function."""
    if isinstance(given, Predicate):
        return given
    if isinstance(given, str) or (callable(given) and not hasattr(given, "isNotNull")):
        return pred(given)
    if hasattr(given, "isNotNull"):
        return Predicate(str(given), sql=given)
    raise DefinitionError(
        f"a predicate can't be a {type(given).__name__}", hint="give tw.pred(function, 'column'), SQL text or a Column"
    )


def _read(function: Callable[..., Any]) -> tuple[Kind, Callable[..., Any]]:
    """The kind of a function, and what to call: a udf's own function, an iterator udf wrapped to take one batch."""
    eval_type = getattr(function, "evalType", None)
    if isinstance(eval_type, int) and hasattr(function, "func"):
        shown = getattr(function, "__name__", "udf")
        if eval_type not in UDF_KINDS:
            raise DefinitionError(f"udf '{shown}' is not a scalar one", hint="use udf, pandas_udf or arrow_udf")
        returns = getattr(function, "returnType", None)
        if returns is not None and returns.typeName() != "boolean":
            raise DefinitionError(f"udf '{shown}' returns {returns.simpleString()}, not boolean")
        if not getattr(function, "deterministic", True):
            raise DefinitionError(
                f"udf '{shown}' is marked nondeterministic, so its answer would depend on when it is asked",
                hint="leave out .asNondeterministic(): a predicate here sees only rows that survived anyway",
            )
        kind, iterates = UDF_KINDS[eval_type]
        return kind, OneBatch(function.func) if iterates else function.func
    return _annotated(function), function


@dataclass(frozen=True)
class OneBatch:
    """Calls an iterator udf with a single batch."""

    function: Callable[..., Iterator[Any]]

    def __call__(self, *columns: Any) -> Any:
        given = columns[0] if len(columns) == 1 else columns
        return next(iter(self.function(iter([given]))))


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    target = getattr(function, "func", function) if hasattr(function, "evalType") else function
    try:
        return inspect.signature(target)
    except (TypeError, ValueError):
        return None


def _annotated(function: Callable[..., Any]) -> Kind:
    signature = _signature(function)
    if signature is None:
        return "row"
    notes = [p.annotation for p in signature.parameters.values()] + [signature.return_annotation]
    for note in notes:
        text = note if isinstance(note, str) else f"{getattr(note, '__module__', '')}.{getattr(note, '__name__', '')}"
        root, _, leaf = text.rpartition(".")
        if leaf in ("Array", "ChunkedArray", "BooleanArray") and root.split(".")[0] in ("pa", "pyarrow"):
            return "arrow"
        if leaf in ("Series", "DataFrame") and root.split(".")[0] in ("pd", "pandas"):
            return "pandas"
    return "row"


def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    signature = _signature(function)
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if signature is None or any(p.kind not in plain for p in signature.parameters.values()):
        raise DefinitionError("which columns does the predicate take?", hint="pred(function, 'column', ...)")
    return tuple(p.name for p in signature.parameters.values() if p.default is inspect.Parameter.empty)


def _name(function: Callable[..., Any], columns: Sequence[str]) -> str:
    given = getattr(function, "__name__", None) or type(function).__name__
    return f"lambda({', '.join(columns)})" if given == "<lambda>" else str(given)
