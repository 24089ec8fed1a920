"""Index layouts that follow the access patterns, compared with fixed ones, hash indexes and hindsight."""
