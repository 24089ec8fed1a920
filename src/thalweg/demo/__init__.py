"""The demo: a stream worth watching, on local Spark, with nothing else to install."""
