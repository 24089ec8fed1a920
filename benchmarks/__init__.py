"""Speed and work, as ratios measured within one run. Each folder is a module: `python -m benchmarks.filters`."""
