"""Indexes: how the slices of a stem are indexed."""
