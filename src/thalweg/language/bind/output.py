"""The select list: what each entry is called, needs, and is computed from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from sqlglot import exp

from thalweg.errors import did_you_mean
from thalweg.language.bind.scope import Scope, matching
from thalweg.language.query import Column, OutputColumn
from thalweg.language.text.naming import spark_name
from thalweg.language.text.quoting import quoted, quoted_column


@dataclass
class Item:
    """One output column: an expression of the text, or a column that * stands for."""

    name: str
    node: exp.Expr
    column: Column | None = None

    @property
    def value(self) -> exp.Expr:
        """The expression without its alias."""
        return self.node.this if isinstance(self.node, exp.Alias) else self.node


def items(scope: Scope, select: exp.Select) -> list[Item]:
    """The output columns in order. Where * gives one name twice, the names of the inputs are put in front."""
    found = [i for node in select.expressions for i in _items(scope, node)]
    count = Counter(i.name for i in found)
    found = [
        replace(i, name=f"{i.column.input}_{i.name}") if i.column is not None and count[i.name] > 1 else i
        for i in found
    ]  # fmt: skip
    seen: set[str] = set()
    for i in found:
        if i.name in seen:
            raise scope.parsed.error(
                i.node,
                f"two output columns are called '{i.name}'",
                f"give one of them another name: {_example(scope, i)}",
            )
        seen.add(i.name)
    return found


def _example(scope: Scope, item: Item) -> str:
    node = item.value
    bare = scope.resolved.get(id(node.unnest()))
    if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
        column = bare.column if bare is not None else None
        owner = column.input if column is not None else node.table
        return f"{scope.text(node)} AS {quoted(f'{owner}_{item.name}' if owner else f'{item.name}_2')}"
    return f"... AS {quoted(item.name + '_2')}"


def output(scope: Scope, item: Item) -> OutputColumn:
    """An output column of a plain block, which Spark computes."""
    if item.column is not None:
        return OutputColumn(item.name, quoted_column(item.column), item.column, (item.column,))
    node = item.value
    needs = tuple(dict.fromkeys(r.column for r in scope.columns(node, scope.entries, timed=True)))
    bare = scope.resolved.get(id(node.unnest()))
    plain = bare.column if bare is not None and not bare.fields else None
    return OutputColumn(item.name, scope.text(node), plain, needs)


def _items(scope: Scope, item: exp.Expr) -> Iterator[Item]:
    star = item if isinstance(item, exp.Star) else item.this if isinstance(item, exp.Column) else None
    if isinstance(star, exp.Star):
        yield from (Item(n, item, c) for n, c in _starred(scope, item, star))
        return
    node = item.this if isinstance(item, exp.Alias) else item
    scope.columns(node, scope.entries, timed=True)
    name = item.alias if isinstance(item, exp.Alias) else spark_name(node, lambda n: scope.text(n, named=False))
    yield Item(name, item)


def _starred(scope: Scope, item: exp.Expr, star: exp.Star) -> list[tuple[str, Column]]:
    if any(star.args.get(k) for k in ("replace", "rename")):
        raise scope.parsed.error(item, "* REPLACE and * RENAME are not supported", "name the columns")
    if isinstance(item, exp.Column):
        found = matching(item.table, [e.name for e in scope.entries])
        if not found:
            raise scope.no_input(item, item.table, scope.entries)
        entry = next(e for e in scope.entries if e.name == found[0])
        columns = [(n, entry.column(n)) for n in entry.starred]
    else:
        names = {e.column(n): n for e in scope.entries for n in e.names}
        columns = [(names[c], c) for c in scope.visible]
    for node in star.args.get("except_") or star.args.get("except") or []:
        parts = [p.name for p in node.parts] if isinstance(node, exp.Column) else [node.name]
        found = matching(parts[-1], [n for n, _ in columns])
        if not found:
            raise scope.parsed.error(node, f"* has no column '{parts[-1]}'",
                                     did_you_mean(parts[-1], [n for n, _ in columns]))  # fmt: skip
        owner = matching(parts[0], [e.name for e in scope.entries]) if len(parts) > 1 else []
        mine = {e.column(n) for e in scope.entries if e.name in owner for n in e.names}
        columns = [(n, c) for n, c in columns if n not in found or (owner and c not in mine)]
    return columns
