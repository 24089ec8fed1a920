"""Access patterns: which join attributes probes know, and how evenly values spread."""
