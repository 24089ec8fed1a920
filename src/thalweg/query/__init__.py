"""What is asked: SQL text, parsed and bound to a Query; and predicates as users give them."""

import thalweg.query.callable  # noqa: F401  (makes tw.query("name") work)
