"""Orders: one route for all rows of an input."""
