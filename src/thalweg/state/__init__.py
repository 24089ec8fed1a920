"""What is kept: tuples in slices, their keys and indexes."""
