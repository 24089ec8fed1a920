"""An expression as text, for explain and tests: close to SQL, without types except for casts."""

from __future__ import annotations

from thalweg.language.scalar.calendar import Moved
from thalweg.language.scalar.checked import Arithmetic, As, Divide
from thalweg.language.scalar.decimals import FixedArithmetic
from thalweg.language.scalar.expression import Apply, Call, Constant, Expression, Field, Member
from thalweg.language.scalar.logic import Case, Coalesce, Connect

_INFIX = frozenset(["=", "<>", "<", "<=", ">", ">=", "<=>", "&", "|", "^", "+", "-", "*"])


def written(e: Expression) -> str:
    """The text of an expression.

    >>> import pyarrow as pa
    >>> written(Apply(pa.bool_(), "<", (Field(pa.int32(), "a.x"), Constant(pa.int32(), 3))))
    'a.x < 3'
    """
    match e:
        case Field():
            return str(e.key)
        case Constant():
            return "NULL" if e.value is None else repr(e.value) if isinstance(e.value, str) else str(e.value)
        case Member():
            return f"{written(e.of)}.{e.of.type.field(e.index).name}"
        case Apply() | Arithmetic():
            parts = [written(p) for p in e.of]
            if e.op in _INFIX and len(parts) == 2:
                return f"{_inside(e.of[0])} {e.op} {_inside(e.of[1])}"
            options = [repr(o) for o in e.options] if isinstance(e, Apply) else []
            return f"{e.op}({', '.join([*parts, *options])})"
        case FixedArithmetic() | Divide():
            return f"{_inside(e.left)} {e.op} {_inside(e.right)}"
        case As():
            return f"CAST({written(e.of)} AS {e.type})"
        case Moved():
            return f"add_months({written(e.of)}, {e.months})"
        case Connect():
            return f"{_inside(e.left)} {e.op} {_inside(e.right)}"
        case Case():
            branches = [f"WHEN {written(c)} THEN {written(v)}" for c, v in zip(e.conditions, e.values, strict=True)]
            return f"CASE {' '.join(branches)} ELSE {written(e.otherwise)} END"
        case Coalesce():
            return f"coalesce({', '.join(written(i) for i in e.items)})"
        case Call():
            return f"{e.name}({', '.join(written(a) for a in e.arguments)})"
    return type(e).__name__.lower() + f"({', '.join(written(p) for p in e.parts)})"


def _inside(e: Expression) -> str:
    text = written(e)
    return (
        f"({text})" if isinstance(e, Apply | Arithmetic | FixedArithmetic | Divide | Connect) and " " in text else text
    )
