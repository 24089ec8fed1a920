"""What every policy must keep to, one function for each thing, by subject; `conformance.py` runs them."""
