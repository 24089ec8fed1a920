"""The walk over a syntax tree: one rule per node class, kept by family in the files beside this one.

Anything not known to agree with Spark in ANSI mode for every value (regular expressions, time zones, rounding,
formatting of floats...) is refused with OnlySpark. Spark then evaluates the text; it is never approximated here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.types as pt
from sqlglot import exp

from thalweg.errors import QueryError
from thalweg.language.functions import Signature
from thalweg.language.query import Column
from thalweg.language.scalar.checked import As, as_constant
from thalweg.language.scalar.expression import Apply, Call, Constant, Expression, Field, Member
from thalweg.language.scalar.types import BOOL, family, is_decimal, is_numeric, logical, only_spark, unified

Rules: TypeAlias = "Mapping[type[exp.Expr], Callable[[Compiler, Any], Expression]]"


class OnlySpark(Exception):
    """Only Spark knows the exact answer of this node."""

    def __init__(self, node: exp.Expr) -> None:
        super().__init__(type(node).__name__)
        self.node = node

    def hint(self, otherwise: str) -> str:
        """What to do about it, if Spark can't evaluate it because a Python function is near."""
        name = self.node.name if isinstance(self.node, exp.Anonymous) else ""
        return f"if {name} is a Python function, pass it: {name}={name}" if name else otherwise


@dataclass(frozen=True)
class Resolved:
    """What a name in the text stands for: a column, and the fields inside it if it is a struct."""

    column: Column
    type: pa.DataType
    fields: tuple[str, ...] = ()


@dataclass(frozen=True)
class Names:
    """Everything an expression may mention."""

    columns: Mapping[int, Resolved]
    """By the identity of a node: its column. A node that is computed elsewhere (an aggregate, a grouped expression, a
    scalar subquery) may stand here too and is then read as that column, not compiled."""
    functions: Mapping[str, tuple[str, Signature]]
    error: Callable[[exp.Expr, str, str | None], QueryError]
    key: Callable[[Column], Any]
    """The key under which the engine will pass a column's array."""


class Compiler:
    """Applies the rules. Every method raises OnlySpark if its result would not be exact."""

    def __init__(self, names: Names, rules: Rules) -> None:
        self.names = names
        self.rules = rules

    def value(self, node: exp.Expr, wanted: pa.DataType | None = None) -> Expression:
        """The node's expression; `wanted` is the type of a function's result that declares none."""
        if id(node) in self.names.columns:
            return self.column(self.names.columns[id(node)])
        if isinstance(node, exp.Paren):
            return self.value(node.this, wanted)
        if isinstance(node, exp.Anonymous) and self.calls(node):
            return self._call(node, wanted)
        rule = self.rules.get(type(node))
        if rule is None:
            raise OnlySpark(node)
        found = rule(self, node)
        return Apply(BOOL, "not", (found,)) if node.args.get("negate") else found

    def column(self, resolved: Resolved) -> Expression:
        found: Expression = Field(logical(resolved.type), self.names.key(resolved.column))
        for name in resolved.fields:
            index = found.type.get_field_index(name)
            found = Member(logical(found.type.field(index).type), found, index)
        return found

    def condition(self, node: exp.Expr) -> Expression:
        found = self.value(node, BOOL)
        if pt.is_null(found.type):
            return Constant(BOOL, None)
        if not pt.is_boolean(found.type):
            raise self.names.error(node, f"a condition is needed here, found a {family(found.type)}", None)
        return found

    def number(self, node: exp.Expr) -> Expression:
        found = self.value(node)
        if not is_numeric(found.type):
            raise OnlySpark(node)
        return found

    def text(self, node: exp.Expr | None, parent: exp.Expr) -> Expression:
        if node is None:
            raise OnlySpark(parent)
        found = self.value(node)
        if not pt.is_string(found.type):
            raise OnlySpark(node)
        return found

    def cast(self, node: exp.Expr, found: Expression, target: pa.DataType) -> Expression:
        """To a common type."""
        if found.type == target:
            return found
        constant = as_constant(found, target)
        if constant is not None:
            return constant
        if is_decimal(found.type) and not (is_decimal(target) or pt.is_float64(target)):
            raise OnlySpark(node)
        return As(target, found)

    def alike(self, node: exp.Expr, values: Sequence[Expression]) -> list[Expression]:
        """Values in their common type."""
        shared: pa.DataType | None = pa.null()
        for value in values:
            shared = unified(shared, value.type) if shared is not None else None
        if shared is None or only_spark(shared) or pt.is_null(shared):
            raise OnlySpark(node)
        return [self.cast(node, v, shared) for v in values]

    def inputs(self, node: exp.Expr) -> set[str]:
        known = self.names.columns
        return {known[id(n)].column.input for n in node.walk() if id(n) in known}

    def calls(self, node: exp.Expr) -> bool:
        """Whether a node is a call of a user's function."""
        node = node.unnest()
        return isinstance(node, exp.Anonymous) and node.name in self.names.functions

    def _call(self, node: exp.Anonymous, wanted: pa.DataType | None) -> Expression:
        name, signature = self.names.functions[node.name]
        result = signature.result or wanted
        if not signature.takes(len(node.expressions)):
            raise self.names.error(node, f"{name} can't be called with {len(node.expressions)} arguments",
                                   "pass as many as its definition takes")  # fmt: skip
        if result is None:
            raise self.names.error(node, f"what {name} returns is not known",
                                   f"annotate it (def {name}(...) -> float), or use it as a condition of its own")  # fmt: skip
        try:
            arguments = tuple(self.value(a) for a in node.expressions)
        except OnlySpark as only:
            hint = only.hint("make it a column of the input first (withColumn), or compute it inside the function")
            message = f"this can't be passed to {name}: only Spark can compute it exactly"
            raise self.names.error(only.node, message, hint) from None
        return Call(result, name, signature.kind, signature.call, arguments)
