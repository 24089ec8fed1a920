"""Where caches of partial results pay, in time."""
