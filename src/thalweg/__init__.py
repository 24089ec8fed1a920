"""Continuous queries on Spark whose plans follow the data."""

__version__ = "0.1.0"
