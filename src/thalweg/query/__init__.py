"""What is asked: SQL text, parsed and bound to a Query; and predicates as users give them.

The values are here; `thalweg.query.bind.bind` makes them of text. It is not imported with the package, because workers
that only evaluate a bound query need no SQL parser.
"""

import thalweg.query.callable  # noqa: F401  (makes tw.query("name") work)
from thalweg.query.query import Column, Filter, Input, KeyClass, OutputColumn, Query, Residual, Source, Window

__all__ = ["Column", "Filter", "Input", "KeyClass", "OutputColumn", "Query", "Residual", "Source", "Window"]
