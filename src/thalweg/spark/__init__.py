"""Where it runs: plumbing between Spark's DataFrames and Thalweg's cells. Nothing here takes a decision."""

BRIEF = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of a JVM that ends within a minute, or has little data: it does not earn back what its optimizing compiler takes,
a third of all the CPU time."""
