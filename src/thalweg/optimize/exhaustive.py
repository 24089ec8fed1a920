"""How far searches go before a greedy one takes over: for caches, layouts, bits of stems and routes alike."""

from __future__ import annotations

EXHAUSTIVE = 4096
"""Size: combinations up to which a search tries every one. Tests hold each greedy search close to the exact one."""
