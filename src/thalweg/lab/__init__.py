"""The papers' experiments, repeated: what they claimed, and what we measured."""
