"""Speed and work, as ratios measured in one run. Each folder is a module: `python -m benchmarks.filters`."""
