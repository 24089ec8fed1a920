"""Rows under numbers: the block that groups, set operations, matches and cancellation are built of."""
