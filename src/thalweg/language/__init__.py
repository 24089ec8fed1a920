"""What is asked: SQL text, bound to a Query, and predicates as users give them.

`text/` reads and writes SQL, `bind/` resolves its names, `scalar/` compiles and evaluates its expressions; the values
are in `query.py`. Import `bind` from `thalweg.language.bind`: a worker that only evaluates a bound query needs no SQL
parser, so this package does not import it.
"""

from thalweg.language.query import Block, Column, Filter, Input, KeyClass, OutputColumn, Query, Residual, Source, Window

__all__ = ["Block", "Column", "Filter", "Input", "KeyClass", "OutputColumn", "Query", "Residual", "Source", "Window"]
