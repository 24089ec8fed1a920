"""Scalar expressions: trees that evaluate themselves over Arrow arrays, and their compilation from syntax trees."""
