"""Functions of texts, as far as Arrow and Java agree on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from thalweg.language.scalar.expression import Datum, Expression, Frame


@dataclass(frozen=True)
class Text(Expression):
    """A function of one text with fixed options."""

    op: str
    of: Expression
    options: tuple[Any, ...] = ()

    def evaluate(self, frame: Frame) -> Datum:
        array = self.of.array(frame)
        match self.op:
            case "upper" | "lower":
                if pc.all(pc.string_is_ascii(array)).as_py() is not False:
                    return pc.ascii_upper(array) if self.op == "upper" else pc.ascii_lower(array)
                # Arrow maps character by character; Java and Python also know ß → SS and the final sigma.
                change = str.upper if self.op == "upper" else str.lower
                return pa.array([None if v is None else change(v) for v in array.to_pylist()], pa.string())
            case "trim" | "ltrim" | "rtrim":
                kernel = {"trim": pc.utf8_trim, "ltrim": pc.utf8_ltrim, "rtrim": pc.utf8_rtrim}[self.op]
                return kernel(array, characters=" ")
            case "length":
                count = pc.binary_length(array) if pt.is_binary(array.type) else pc.utf8_length(array)
                return pc.cast(count, pa.int32())
            case "substring":
                return pc.utf8_slice_codeunits(array, start=self.options[0], stop=self.options[1])
            case "startswith":
                return pc.starts_with(array, pattern=self.options[0])
            case "endswith":
                return pc.ends_with(array, pattern=self.options[0])
            case _:
                return pc.match_substring(array, pattern=self.options[0])


@dataclass(frozen=True)
class Concat(Expression):
    """Texts one after the other; NULL if one of them is NULL."""

    items: tuple[Expression, ...]

    def evaluate(self, frame: Frame) -> Datum:
        return pc.binary_join_element_wise(*[i.array(frame) for i in self.items], "", null_handling="emit_null")


@dataclass(frozen=True)
class Matches(Expression):
    """LIKE, as an anchored RE2 pattern."""

    of: Expression
    pattern: str

    def evaluate(self, frame: Frame) -> Datum:
        return pc.match_substring_regex(self.of.evaluate(frame), self.pattern)
