"""FROM: every entry becomes an input, a source under an alias with its window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow.types as pt
from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from thalweg.errors import DefinitionError, did_you_mean
from thalweg.language.bind.scope import Entry, field_type, listed, matching, name_start
from thalweg.language.bind.unsupported import clause_name, refuse_join
from thalweg.language.query import Input, Source, Window
from thalweg.language.text.parse import Parsed
from thalweg.language.text.quoting import quoted


def entries(parsed: Parsed, sources: Mapping[str, Source]) -> list[Entry]:
    """The entries of FROM in written order."""
    found = [_entry(parsed, sources, parsed.select.args["from_"].this, None, [])]
    for join in parsed.select.args.get("joins") or []:
        refuse_join(parsed, join, name_start(join.this))
        found.append(_entry(parsed, sources, join.this, join, found))
    for entry in found:
        entry.input = replace(entry.input, window=_window(parsed, entry, alone=len(found) == 1))
    written = {e.position for e in found}
    for position, clause in parsed.windows.items():
        if position not in written:
            raise parsed.error(clause.span, "this window belongs to no stream",
                               "write it right after its stream in FROM")  # fmt: skip
    return found


def _entry(
    parsed: Parsed, sources: Mapping[str, Source], node: exp.Expr, join: exp.Join | None, others: Sequence[Entry]
) -> Entry:
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
        raise parsed.error(node, "only streams and tables can stand in FROM", "name one of the sources")
    for key, value in node.args.items():
        if value and key not in ("this", "db", "catalog", "alias"):
            raise parsed.error(node, f"{clause_name(key)} is not supported yet")
    alias = node.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        raise parsed.error(alias, "new names for columns are not supported yet", "rename them in SELECT")
    source = _source(parsed, sources, node)
    name = node.alias or source
    if any(other.alias.lower() == name.lower() for other in others):
        raise parsed.error(alias if node.alias else node, f"two inputs are called '{name}'",
                           f"give one of them another name: {source} AS {name}_2")  # fmt: skip
    position = name_start(node) or 0
    before = [t.token_type for t in parsed.before(position)[-2:]]
    crossed = join is not None and before == [TokenType.CROSS, TokenType.JOIN]
    return Entry(Input(name, source, sources[source], Window("unbounded")), node, join, position, crossed)


def _source(parsed: Parsed, sources: Mapping[str, Source], node: exp.Table) -> str:
    """The source that a name in FROM stands for, checked."""
    written = ".".join(p.name for p in node.parts)
    found = matching(written, sources)
    if not found:
        raise parsed.error(node.this, f"no stream or table '{written}'", did_you_mean(written, sources))
    if len(found) > 1:
        raise parsed.error(node.this, f"'{written}' could be {listed(found)}", "write its exact case")
    name, spec = found[0], sources[found[0]]
    if not isinstance(spec, Source):
        raise DefinitionError(f"'{name}' is of type {type(spec).__name__}, not a Source")
    if not spec.schema.names:
        raise DefinitionError(f"'{name}' has no columns")
    if spec.time is not None:
        if spec.time not in spec.schema.names:
            raise DefinitionError(f"'{name}' has no time column '{spec.time}'",
                                  hint=did_you_mean(spec.time, spec.schema.names))  # fmt: skip
        time = field_type(spec.schema, spec.time)
        if not (pt.is_integer(time) or pt.is_timestamp(time)):
            raise DefinitionError(f"the time column '{spec.time}' of '{name}' is {time}",
                                  hint="time is a timestamp or an integer")  # fmt: skip
    return name


def _window(parsed: Parsed, entry: Entry, alone: bool) -> Window:
    clause = parsed.windows.get(entry.position)
    given = entry.input
    if not given.is_stream:
        if clause is not None:
            raise parsed.error(
                clause.span, f"'{given.source}' is a table, it has no window",
                "leave the window out: a table is always seen whole; or, if it is a stream, say which column is its "
                f"time: {quoted(given.source)}=tw.stream(df, time=...)",
            )  # fmt: skip
        return given.window
    if clause is None:
        if parsed.every is not None:
            return parsed.every.window
        if alone:
            return Window("now")  # nothing is joined, so nothing is kept
        alias = f" AS {given.alias}" if given.alias != given.source else ""
        raise parsed.error(
            entry.node, f"the stream '{given.source}' has no window",
            f"say how long its rows count: {quoted(given.source)} [RANGE 10 SECONDS]{alias}, "
            "or end the query with WINDOW 10 SECONDS for all streams",
        )  # fmt: skip
    by: list[str] = []
    for name, span in zip(clause.window.by, clause.by, strict=False):
        found = matching(name, entry.names)
        if len(found) != 1:
            raise parsed.error(span, f"'{given.source}' has no column '{name}'", did_you_mean(name, entry.names))
        by.append(found[0])
    return replace(clause.window, by=tuple(by))
