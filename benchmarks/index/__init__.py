"""Layouts that follow the access patterns, against fixed ones, hash indexes, and hindsight."""
