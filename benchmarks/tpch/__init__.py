"""TPC-H's queries kept up to date over endless streams: what a batch costs early and late in the history."""
