"""Joins of windowed streams one signed element at a time, as the thesis runs them: MJoins, their caches, and trees."""
