"""The demo: two streams worth watching, on local Spark, with nothing else to install."""
