"""What is asked: SQL text, parsed and bound to a Query; and predicates as users give them.

The values are here; `thalweg.language.bind.bind` makes them of text. It is not imported with the package, because workers
that only evaluate a bound query need no SQL parser.
"""

from thalweg.language.query import Block, Column, Filter, Input, KeyClass, OutputColumn, Query, Residual, Source, Window

__all__ = ["Block", "Column", "Filter", "Input", "KeyClass", "OutputColumn", "Query", "Residual", "Source", "Window"]
