"""Where it runs: plumbing between Spark's DataFrames and Thalweg's cells. Nothing here takes a decision."""
