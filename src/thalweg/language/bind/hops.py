"""`window(result_time, '10 minutes', '5 minutes')` in GROUP BY: windows of time over results, as Spark users write them.

The first argument is `result_time`, or the time column of the only stream that the block reads: they are the same.
"""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from thalweg.errors import DefinitionError
from thalweg.language.algebra import Hop, Node
from thalweg.language.bind.kinds import is_relation
from thalweg.language.bind.scope import Scope
from thalweg.language.bind.times import streams, time_type
from thalweg.language.durations import micros
from thalweg.language.query import Column

_FORM = "window(result_time, '10 minutes') or window(result_time, '10 minutes', '5 minutes')"


def hop_of(scope: Scope, node: exp.Expr, child: Node) -> Hop | None:
    """The windows that a key of GROUP BY asks for; None if it is another expression."""
    node = node.unnest()
    if not isinstance(node, exp.Anonymous) or node.name.lower() != "window" or node.name in scope.functions:
        return None
    arguments = node.expressions
    if not 2 <= len(arguments) <= 3:
        hint = (
            "a start time is not supported; windows are aligned with 1970-01-01 UTC" if len(arguments) == 4 else _FORM
        )
        raise scope.parsed.error(node, "window takes a time, a length and perhaps a slide", hint)
    if not streams(child):
        raise scope.parsed.error(node, "window(...) needs a stream", "group a table by an expression of its time")
    if not is_result_time(scope, arguments[0], child):
        raise scope.parsed.error(
            arguments[0], "windows are made over the time of a result",
            f"{_FORM}; a stream's own time column may stand there if it is the only stream",
        )  # fmt: skip
    refuse_relation(scope, node, child)
    lengths = [_length(scope, a) for a in arguments[1:]]
    size, slide = lengths[0], lengths[-1]
    if not 0 < slide <= size:
        raise scope.parsed.error(node, "the slide of a window is above zero and at most its length", _FORM)
    time = time_type(child)
    name = scope.world.name("window")
    struct = pa.struct([("start", time), ("end", time)])
    return Hop(pa.schema([*child.schema, pa.field(name, struct)]), child, name, size, slide)


def refuse_relation(scope: Scope, node: exp.Expr, child: Node) -> None:
    """Raise where rows come and go: then there are no results to count once."""
    if is_relation(child):
        raise scope.parsed.error(node, "this counts results, but what it stands over is a relation, whose rows come and go",
                                 "make it a stream first: FROM ISTREAM(SELECT ...) AS q")  # fmt: skip


def is_result_time(scope: Scope, node: exp.Expr, child: Node) -> bool:
    """Whether a name means the time of a result: `result_time`, or the time of the only stream."""
    node = node.unnest()
    if not isinstance(node, exp.Column):
        return False
    if scope.is_time(node):
        return True
    column = scope.columns(node, scope.entries)[0]
    read = streams(child)
    return len(read) == 1 and not column.fields and column.column == Column(read[0].alias, str(read[0].spec.time))


def _length(scope: Scope, node: exp.Expr) -> int:
    text = node.this if isinstance(node, exp.Literal) and node.is_string else None
    if isinstance(node, exp.Interval):
        text = f"{node.this.name} {node.args['unit'].name}" if node.args.get("unit") else node.this.name
    try:
        return micros(str(text), "the length of a window") if text else 0
    except DefinitionError:
        raise scope.parsed.error(node, f"'{text}' is not a length of time", "for example '10 minutes'") from None
