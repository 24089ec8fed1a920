"""A layout: how the slices of a stem are indexed. A value; `state/index.py` builds the indexes.

`bits`: one bit-address index with a few bits of each join attribute (AMRI, section 4.1). `hash`: one hash index per
access pattern that probes use, or only the listed ones; an unlisted pattern uses the index that shares the most
attributes with it and has no others, or scans (section 2.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from thalweg.errors import DefinitionError

Pattern = tuple[int, ...]
"""An access pattern: the join attributes that a probe knows, by position in the stem's list."""


@dataclass(frozen=True)
class Layout:
    """How slices are indexed. `bits` are given in the order of the stem's join attributes; empty means equal shares. A
    directory never has more buckets than rows, so small slices get fewer bits.

    >>> Layout("bits", (5, 2, 3)).fitted(3, 16)
    (2, 1, 1)
    >>> Layout("bits").fitted(3, 1024)
    (4, 3, 3)
    >>> Layout("hash", patterns=((0,), (0, 1))).serving((0, 2))
    (0,)
    """

    kind: Literal["hash", "bits"] = "hash"
    bits: tuple[int, ...] = ()
    patterns: tuple[Pattern, ...] | None = None

    @classmethod
    def parse(cls, layout: Layout | str) -> Layout:
        """By name: `hash` (for every pattern), `bits` (equal shares), `scan` (no index)."""
        if isinstance(layout, Layout):
            return layout
        if layout == "scan":
            return cls("hash", patterns=())
        if layout not in ("hash", "bits"):
            raise DefinitionError(f"no index layout '{layout}'", hint="known are 'hash', 'bits', 'scan'")
        return cls("hash" if layout == "hash" else "bits")

    def fitted(self, attributes: int, rows: int) -> tuple[int, ...]:
        """Bits per attribute for at most `rows` rows."""
        if not attributes:
            return ()
        most = max(rows - 1, 0).bit_length()
        if not self.bits:
            return tuple(most // attributes + (k < most % attributes) for k in range(attributes))
        bits = list(self.bits)
        while sum(bits) > most:
            bits[max(range(attributes), key=lambda k: (bits[k], k))] -= 1
        return tuple(bits)

    def serving(self, pattern: Pattern) -> Pattern:
        """The attributes of the hash index that serves an access pattern; empty means a scan."""
        if self.patterns is None:
            return pattern
        fit = [p for p in self.patterns if set(p) <= set(pattern)]
        return max(fit, key=lambda p: (len(p), p), default=())

    def named(self, names: Sequence[str]) -> str:
        """
        >>> Layout("bits", (5, 0, 3)).named(["k", "l", "m"]), Layout("hash", patterns=((0,),)).named(["k", "l"])
        ('k 5, m 3 bits', 'hash on k')
        """
        if self.kind == "bits":
            if not self.bits:
                return "equal bits"
            return (", ".join(f"{n} {b}" for n, b in zip(names, self.bits, strict=True) if b) or "no") + " bits"
        if self.patterns is None:
            return "hash for each pattern"
        return "; ".join("hash on " + ", ".join(names[k] for k in p) for p in self.patterns) or "no index"

    def record(self) -> dict[str, Any]:
        return {"kind": self.kind, "bits": list(self.bits), "patterns": self.patterns}

    @classmethod
    def of(cls, record: dict[str, Any]) -> Layout:
        """Read what `record` wrote."""
        patterns = record["patterns"]
        return cls(
            record["kind"], tuple(record["bits"]), None if patterns is None else tuple(tuple(p) for p in patterns)
        )
