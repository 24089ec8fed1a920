"""Caches of partial results: which of them pay, and how much memory each gets (thesis 5.5 to 5.7)."""
