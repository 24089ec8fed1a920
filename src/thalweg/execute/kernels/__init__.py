"""Compiled loops over rows: arrays in, arrays out."""
