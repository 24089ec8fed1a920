"""What lives: results with a lifetime, and what is made of them. `operator(node)` runs a node of the algebra."""

from thalweg.relate.operators import operator

__all__ = ["operator"]
