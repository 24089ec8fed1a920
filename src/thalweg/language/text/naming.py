"""What Spark would call an output column that has no alias.

Spark names an expression by printing it: operators in parentheses, columns without their table, texts without quotes,
functions in lower case. Best effort: an expression without a rule is named by its own text, without quotes.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

_INFIX: dict[type[exp.Expr], str] = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%", exp.IntDiv: "div", exp.EQ: "=", exp.LT: "<",
    exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=", exp.NullSafeEQ: "<=>", exp.And: "AND", exp.Or: "OR",
    exp.BitwiseAnd: "&", exp.BitwiseOr: "|", exp.BitwiseXor: "^",
}  # fmt: skip
_BINARY = {kind: f"({{}} {op} {{}})" for kind, op in _INFIX.items()} | {
    exp.NEQ: "(NOT ({} = {}))", exp.Like: "{} LIKE {}", exp.DPipe: "concat({}, {})",
}  # fmt: skip


class _Unnamed(Exception):
    """No rule for this node."""


def spark_name(node: exp.Expr, written: Callable[[exp.Expr], str]) -> str:
    """The name of an expression; `written` gives a node's own text without quotes."""
    top = node.unnest()
    printer = _Printer(written)
    if isinstance(top, exp.Cast | exp.TryCast) and isinstance(top.this.unnest(), exp.Column):
        return printer.name(top.this)
    try:
        return printer.name(node)
    except _Unnamed:
        return written(node)


class _Printer:
    def __init__(self, written: Callable[[exp.Expr], str]) -> None:
        self.written = written

    def name(self, node: exp.Expr) -> str:
        if isinstance(node, exp.Paren):
            return self.name(node.this)
        if isinstance(node, exp.Column):
            return str(node.parts[-1].name)  # as the query writes it, not as its source does
        if isinstance(node, exp.Literal):
            return str(node.this)
        if isinstance(node, exp.Null):
            return "NULL"
        if isinstance(node, exp.Boolean):
            return "true" if node.this else "false"
        if type(node) in _BINARY and not node.args.get("negate"):
            return _BINARY[type(node)].format(self.name(node.this), self.name(node.expression))
        if isinstance(node, exp.Neg):
            inner = self.name(node.this)
            return f"-{inner}" if isinstance(node.this, exp.Literal) else f"(- {inner})"
        if isinstance(node, exp.Not):
            if isinstance(node.this, exp.Is) and isinstance(node.this.expression, exp.Null):
                return f"({self.name(node.this.this)} IS NOT NULL)"
            return f"(NOT {self.name(node.this)})"
        if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
            return f"({self.name(node.this)} IS NULL)"
        if isinstance(node, exp.In) and node.expressions and not node.args.get("negate"):
            return f"({self.name(node.this)} IN ({', '.join(self.name(e) for e in node.expressions)}))"
        if isinstance(node, exp.Between) and not node.args.get("symmetric"):
            return f"between({', '.join(self.name(n) for n in (node.this, node.args['low'], node.args['high']))})"
        if isinstance(node, exp.Cast | exp.TryCast) and not node.args.get("safe"):
            spelled = self.written(node).upper()
            if isinstance(node.this, exp.Literal) and not spelled.startswith(("CAST", "DATE", "TIME")):
                return str(node.this.this)
            return f"CAST({self.name(node.this)} AS {node.args['to'].sql('spark')})"
        if isinstance(node, exp.Case):
            return self._case(node)
        if isinstance(node, exp.If):
            parts = [node.this, node.args["true"], node.args.get("false")]
            return f"(IF({', '.join(self.name(p) if p is not None else 'NULL' for p in parts)}))"
        if isinstance(node, exp.Bracket) and len(node.expressions) == 1:
            return f"{self.name(node.this)}[{self.name(node.expressions[0])}]"
        if isinstance(node, exp.Func):
            return self._function(node)
        raise _Unnamed

    def _case(self, node: exp.Case) -> str:
        pieces = ["CASE"]
        for branch in node.args["ifs"]:
            condition = self.name(branch.this)
            if node.this is not None:
                condition = f"({self.name(node.this)} = {condition})"
            pieces += ["WHEN", condition, "THEN", self.name(branch.args["true"])]
        default = node.args.get("default")
        return " ".join([*pieces, *(["ELSE", self.name(default)] if default is not None else []), "END"])

    def _function(self, node: exp.Func) -> str:
        """A function under the name it was written with."""
        own = self.written(node)
        called, parenthesis, _ = own.partition("(")
        if not parenthesis or not called.replace("_", "a").isalnum():
            raise _Unnamed
        arguments = [c for c in node.iter_expressions() if not isinstance(c, exp.Var)]
        if own.count(",") != max(0, len(arguments) - 1):
            # sqlglot rearranged the arguments, or they have commas themselves.
            return called.lower() + parenthesis + own.partition("(")[2]
        return f"{called.lower()}({', '.join(self.name(a) for a in arguments)})"
