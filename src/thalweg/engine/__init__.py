"""One cell: sources, clocks, dispatch, state."""
