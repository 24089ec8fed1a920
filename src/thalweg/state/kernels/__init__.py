"""Compiled loops over stored rows: arrays in, arrays out."""
