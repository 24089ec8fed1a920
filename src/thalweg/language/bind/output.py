"""The select list: what each entry is called, needs, and is computed from."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from thalweg.language.bind.scope import Scope, matching
from thalweg.language.query import Column, OutputColumn
from thalweg.language.text.naming import spark_name
from thalweg.language.text.quoting import quoted_column


def output(scope: Scope, item: exp.Expr) -> Iterator[OutputColumn]:
    """The columns of one entry of the select list."""
    star = item if isinstance(item, exp.Star) else item.this if isinstance(item, exp.Column) else None
    if isinstance(star, exp.Star):
        if any(star.args.get(k) for k in ("except_", "except", "replace", "rename")):
            raise scope.parsed.error(item, "* EXCEPT is not supported yet", "name the columns")
        yield from (OutputColumn(c.name, quoted_column(c), c, (c,)) for c in _starred(scope, item))
        return
    node = item.this if isinstance(item, exp.Alias) else item
    if node.find(exp.Star) is not None:
        raise scope.parsed.error(node, "* can't be used here", "name the columns")
    needs = tuple(dict.fromkeys(r.column for r in scope.columns(node, scope.entries)))
    bare = scope.resolved.get(id(node.unnest()))
    plain = bare.column if bare is not None and not bare.fields else None
    name = item.alias if isinstance(item, exp.Alias) else spark_name(node, lambda n: scope.text(n, named=False))
    yield OutputColumn(name, scope.text(node), plain, needs)


def _starred(scope: Scope, item: exp.Expr) -> list[Column]:
    if not isinstance(item, exp.Column):
        return scope.visible
    found = matching(item.table, [e.alias for e in scope.entries])
    if not found:
        raise scope.no_input(item, item.table, scope.entries)
    return [Column(found[0], n) for n in scope.entry(found[0]).names]
