"""What you see: explain, and the handle of a named query."""
