"""Rates and costs: how often operators drop, how much they multiply, what a row costs."""
