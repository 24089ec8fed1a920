"""What the session says is what holds: conditions that this session reads otherwise than the engine go to Spark.

The engine evaluates conditions as Spark does by default: ANSI mode, strings compared byte by byte. Where the session or a
column's collation asks for something else, a condition is left to Spark, after the join; one that calls a Python
function, and so can't be, is refused when the query is made. Invariant: never another answer than Spark's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pyarrow.types as pt
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructType

from thalweg.errors import DefinitionError
from thalweg.language.algebra import Group, Keep, Match, Node, Over, Project
from thalweg.language.query import Block, Column, Filter, KeyClass, Residual
from thalweg.language.scalar.checked import Arithmetic, As, Divide
from thalweg.language.scalar.decimals import FixedArithmetic
from thalweg.language.scalar.expression import Call, Condition, Expression, Field
from thalweg.language.text.quoting import quoted_column
from thalweg.language.text.tokens import span_of, tokenized
from thalweg.language.text.underline import misread

QUOTED = ("spark.sql.ansi.enabled", "spark.sql.ansi.doubleQuotedIdentifiers")
ESCAPED = "spark.sql.parser.escapedStringLiterals"
USUAL = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.legacy.literal.pickMinimumPrecision": "true",
    "spark.sql.legacy.exponentLiteralAsDecimal.enabled": "false",
    "spark.sql.legacy.negativeIndexInSubstring": "false",
    "spark.sql.legacy.typeCoercion.datetimeToString.enabled": "false",
}
"""Settings that change what arithmetic, casts and comparisons mean, and the values under which the engine agrees."""
CHECKED = (Arithmetic, As, Divide, FixedArithmetic)
"""Expressions that such a setting changes."""
COLUMN_FIRST = "compute it as a column of the input first (withColumn), or split the condition with AND"


@dataclass(frozen=True)
class Meaning:
    """How a session reads conditions."""

    unusual: str = ""
    """A setting under which arithmetic means something else, with its value."""
    escaped: bool = False
    """Whether a backslash in a text stands for itself."""

    @classmethod
    def of(cls, spark: SparkSession) -> Meaning:
        found = {key: str(spark.conf.get(key, usual)).lower() for key, usual in USUAL.items()}
        odd = next((f"{key}={value}" for key, value in found.items() if value != USUAL[key]), "")
        return cls(odd, str(spark.conf.get(ESCAPED, "false")).lower() == "true")


def check_quotes(text: str, spark: SparkSession) -> None:
    """Refuse double quotes where this session takes them for texts: here they are around names."""
    names = all(str(spark.conf.get(key)).lower() == "true" for key in QUOTED)
    quoted = next((t for t in tokenized(text) if text[t.start] == '"'), None)
    if quoted is not None and not names:
        raise misread(text, span_of(quoted), "in this session double quotes are around texts, and here around names",
                      f"write 'x' for a text and `x` for a name, or set {QUOTED[-1]}=true")  # fmt: skip


def faithful(block: Block, types: Mapping[tuple[str, str], DataType], meaning: Meaning) -> tuple[Block, dict[str, str]]:
    """The block with conditions left to Spark where only Spark answers as the session says; and why, by their text."""
    return _Judge(block, types, meaning).judged()


def check_tree(root: Node, columns: Mapping[str, DataType], meaning: Meaning) -> None:
    """Refuse a whole query of which this session would give another answer. `columns` are those that it reads."""
    for name, read in columns.items():
        for collation in _collations(read):
            raise DefinitionError(
                f"'{name}' is collated {collation}, and groups, set operations and outer joins compare bytes",
                hint=f"select a column that is not, such as lower({name}), made with withColumn",
            )
    if not meaning.unusual:
        return
    for node in root.walk():
        tools = [e for part in _expressions(node) for e in part.walk()]
        sums = isinstance(node, Group | Over) and any(a.function in ("sum", "avg") for a in node.aggregates.values())
        if sums or any(isinstance(e, CHECKED) for e in tools):
            raise DefinitionError(
                f"under {meaning.unusual} arithmetic means something else than in the cells",
                hint="leave the setting at its default, or compute the expression in the DataFrame",
            )


def _expressions(node: Node) -> list[Expression]:
    found: list[Expression] = list(node.columns.values()) if isinstance(node, Project) else []
    if isinstance(node, Keep | Match) and node.condition is not None:
        found.append(node.condition)
    return found


class _Judge:
    def __init__(self, block: Block, types: Mapping[tuple[str, str], DataType], meaning: Meaning) -> None:
        self.block, self.meaning = block, meaning
        self.collations = {c: name for c, t in types.items() if (name := next(_collations(t), None)) is not None}
        self.why: dict[str, str] = {}

    def judged(self) -> tuple[Block, dict[str, str]]:
        for i in self.block.inputs:
            for name in i.window.by:
                if (i.alias, name) in self.collations:
                    raise DefinitionError(
                        f"PARTITION BY {i.alias}.{name}: the column is collated, and the engine compares bytes",
                        hint=f"partition by a column that is not, such as lower({name}), made with withColumn",
                    )
        keys, demoted = [], []
        for k in self.block.keys:
            split = list(self._split(k))
            demoted += split
            keys += [] if split else [k]
        filters = tuple(self._filter(f) for f in self.block.filters)
        residuals = tuple(self._residual(r) for r in self.block.residuals)
        return replace(self.block, keys=tuple(keys), filters=filters, residuals=(*residuals, *demoted)), self.why

    def _split(self, key: KeyClass) -> Iterator[Residual]:
        """A key class that bytes can't decide, as equalities for Spark; nothing if they can."""
        names = {self.collations.get((c.input, c.name)) for c in key.columns}
        if len(names) > 1:
            shown = ", ".join(f"{c} is {self.collations.get((c.input, c.name), 'UTF8_BINARY')}" for c in key.columns)
            raise DefinitionError(f"columns of different collations are set equal: {shown}",
                                  hint="give them one with withColumn(name, F.collate(name, ...))")  # fmt: skip
        if names == {None}:
            self._check_numbers(key)
            return
        one_each = list({c.input: c for c in key.columns}.values())
        for a, b in pairwise(one_each):
            text = f"{quoted_column(a)} = {quoted_column(b)}"
            self.why[text] = f"collated {next(iter(names))}"
            yield Residual((a.input, b.input), text, (a, b), None)

    def _check_numbers(self, key: KeyClass) -> None:
        kinds = [i.spec.schema.field(c.name).type for c in key.columns for i in self.block.inputs if i.alias == c.input]
        single = any(pt.is_float32(t) for t in kinds)
        if self.meaning.unusual and single and not all(pt.is_floating(t) for t in kinds):
            shown = " = ".join(map(str, key.columns))
            raise DefinitionError(f"{shown}: under {self.meaning.unusual} Spark rounds to float before it compares",
                                  hint="give the columns one type with withColumn")  # fmt: skip

    def _filter(self, f: Filter) -> Filter:
        held = {n: name for (a, n), name in self.collations.items() if a == f.input}
        return f if self._agrees(f.text, f.evaluate, f.functions, held) else replace(f, evaluate=None)

    def _residual(self, r: Residual) -> Residual:
        held = {Column(*c): name for c, name in self.collations.items()}
        parts = r.evaluate.expression.walk() if isinstance(r.evaluate, Condition) else ()
        calls = tuple(e.name for e in parts if isinstance(e, Call))
        return r if self._agrees(r.text, r.evaluate, calls, held) else replace(r, evaluate=None)

    def _agrees(self, text: str, evaluate: object, calls: tuple[str, ...], collations: Mapping[Any, str]) -> bool:
        """Whether the engine would answer as the session does. If not, and Python is called, that is an error."""
        if not isinstance(evaluate, Condition):
            return True
        said = self._differs(text, evaluate.expression, bool(calls), collations)
        if not said:
            return True
        if calls:
            raise DefinitionError(f"'{text}' calls {calls[0]}, and {said}: Python can't answer as Spark would",
                                  hint=COLUMN_FIRST)  # fmt: skip
        self.why[text] = said
        return False

    def _differs(self, text: str, condition: Expression, calls: bool, collations: Mapping[Any, str]) -> str:
        if self.meaning.escaped and "\\" in text:
            return f"{ESCAPED}=true"
        compared = {e.key for e in _looked_at(condition) if isinstance(e, Field)}
        collated = next((name for key, name in collations.items() if key in compared), "")
        if collated:
            return f"a text is collated {collated}"
        # Without Python in it, everything goes to Spark; with it, only what could differ is refused.
        risky = any(isinstance(e, CHECKED) for e in condition.walk()) or not calls
        return self.meaning.unusual if risky else ""


def _looked_at(e: Expression) -> Iterator[Expression]:
    """What SQL itself looks at: all but the bare columns that functions get."""
    yield e
    for part in e.parts:
        if not (isinstance(e, Call) and isinstance(part, Field)):
            yield from _looked_at(part)


def _collations(t: DataType) -> Iterator[str]:
    """The collations of the texts in a type, other than the plain one."""
    if isinstance(t, StringType) and t.collation != "UTF8_BINARY":
        yield t.collation
    elif isinstance(t, ArrayType):
        yield from _collations(t.elementType)
    elif isinstance(t, MapType):
        yield from (name for part in (t.keyType, t.valueType) for name in _collations(part))
    elif isinstance(t, StructType):
        yield from (name for f in t.fields for name in _collations(f.dataType))
