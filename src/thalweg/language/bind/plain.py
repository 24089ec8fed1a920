"""A query that is nothing but one join block: Spark, or whoever reads the results, computes its SELECT."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from thalweg.language.bind.assemble import Assembly
from thalweg.language.bind.block import Block
from thalweg.language.bind.kinds import only_grows
from thalweg.language.bind.output import items, output
from thalweg.language.bind.scope import own
from thalweg.language.bind.unsupported import refuse_in
from thalweg.language.query import Query, Window
from thalweg.language.text.clauses import Length, StreamKind
from thalweg.language.text.underline import Span


def plain(block: Block, stream: tuple[StreamKind, Span] | None, ticks: Length | None) -> Query | None:
    """The block of such a query, and None for all others."""
    select, scope, world = block.select, block.scope, block.world
    if block.grouped or ticks is not None or any(select.args.get(k) for k in ("distinct", "having", "offset")):
        return None
    if any(isinstance(n, exp.Query | exp.Window) for item in select.expressions for n in item.walk()):
        return None
    if any(isinstance(n, exp.Anonymous) and n.name in world.called for item in select.expressions for n in own(item)):
        return None
    block.part.simplify()
    part = block.part
    inputs = [e.input for e in part.entries]
    if part.outers or part.fulls or any(i is None for i in inputs):
        return None
    if any(i is not None and i.window.slide for i in inputs):
        return None
    chosen = items(scope, select)
    for item in chosen:
        refuse_in(scope, item.node, selected=True)
    columns = tuple(output(scope, item) for item in chosen)
    found = Assembly(scope, part).alone(columns)
    query = Query(scope.parsed.text, found, world.used)
    if stream is not None and not (stream[0] == "istream" and only_grows(query)):
        return None
    return _lone(block, query)


def _lone(block: Block, query: Query) -> Query:
    """Where only one stream is read and no window is written, nothing has to be kept."""
    streams = query.streams
    parsed = block.world.parsed
    if len(streams) != 1 or streams[0].window.kind != "unbounded":
        return query
    entry = next(e for e in block.part.entries if e.alias == streams[0].alias)
    if entry.position in parsed.windows:
        return query
    inputs = tuple(replace(i, window=Window("now")) if i.is_stream else i for i in query.inputs)
    return replace(query, block=replace(query.block, inputs=inputs))
