"""Content: what the values in a row tell about its cheapest route."""
