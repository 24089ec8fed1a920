"""The contract of an index tuner: watch probes, propose layouts, explain yourself; and tuners by name.

A tuner is pure in its inputs (probes, facts, seed). It decides layouts and which slices move; indexes change cost,
never results. Known names: `amri [assessment] [schedule] [migration] [prices]`, where parts left out are cdia-highest,
continuous, all, measured; `amri-paper ...`, with the paper's settings (section 9.6: cdia-highest, hybrid, nothing);
`hashes K ...`, K hash indexes instead of one bit-address index; `chaos`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from thalweg.contract.tuner import Tuner
from thalweg.errors import DefinitionError
from thalweg.plan.layout import Layout
from thalweg.profile.patterns.stemfacts import Probe, StemFacts
from thalweg.profile.prices import Prices

PRICES = ("measured", "recorded")
"""Where the prices of operations on an index come from."""


@dataclass(frozen=True)
class IndexView:
    """What a tuner believes of one stem."""

    layout: str
    patterns: tuple[tuple[str, float], ...] = ()
    """Access patterns and their share of the requests, most frequent first."""
    alternatives: tuple[tuple[str, float], ...] = ()
    """Other layouts and how many times the present one's cost they would have."""
    why: str = ""


Facts = Callable[[str], StemFacts]
"""What is known of a stem, by its name."""


class IndexTuner(Tuner, Protocol):
    """A tuner of layouts."""

    grain: int
    """Tuples between two observations, at least; then the turn of the inputs, in which each has a batch, is finished. 0:
    an observation after every batch."""
    window: int
    """The same while the tuner rests: tuples of an assessment."""

    @property
    def tunings(self) -> int:
        """Selections so far. What `explain` says holds until the next."""
        ...

    @property
    def resting(self) -> bool:
        """Whether one observation per `window` is enough, for as long as routes stay as they are."""
        ...

    def begin(self, attributes: dict[str, int], facts: Facts) -> dict[str, Layout]:
        """Told once which stems there are, how many join attributes each has, and where to ask about them. Returns the
        layouts to start with."""
        ...

    def observe(self, probes: Sequence[Probe]) -> None:
        """What was asked of the stems since the last time."""
        ...

    def explain(self, facts: Facts) -> dict[str, IndexView]: ...


@dataclass(frozen=True)
class TunerName:
    """A tuner's name taken apart.

    >>> TunerName.parse("hashes 3 sria")
    TunerName(kind='hashes', number=3, parts={'assessment': 'sria'})
    """

    kind: str
    number: int = 0
    parts: dict[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, name: str) -> TunerName:
        from thalweg.optimize.indexes.amri import ASSESSMENTS
        from thalweg.optimize.indexes.migrate import MIGRATIONS
        from thalweg.optimize.indexes.schedule import SCHEDULES

        kind, *rest = name.split() or [""]
        number = 0
        if kind not in ("amri", "amri-paper", "hashes", "chaos"):
            raise DefinitionError(
                f"no index tuner '{name}'", hint="known are 'amri', 'amri-paper', 'hashes K' and 'chaos'"
            )
        if kind == "hashes":
            if not rest or not rest[0].isdigit():
                raise DefinitionError(f"'{name}' does not say how many", hint="as in 'hashes 3'")
            number = int(rest.pop(0))
        parts: dict[str, str] = {}
        known: dict[str, list[str]] = {
            "assessment": list(ASSESSMENTS), "schedule": list(SCHEDULES), "migration": list(MIGRATIONS),
            "prices": list(PRICES),
        }  # fmt: skip
        for word in rest:
            role = next((r for r, words in known.items() if word in words), None)
            if role is None or role in parts or kind == "chaos":
                every = "; ".join(f"{r}: {', '.join(words)}" for r, words in known.items())
                raise DefinitionError(f"'{word}' in the index tuner '{name}' is not understood", hint=every)
            parts[role] = word
        return cls(kind, number, parts)


def make(name: str, seed: int = 0, measured: Prices | None = None, **options: Any) -> IndexTuner:
    """A fresh tuner by name. `measured` tells the prices of this machine; without it, and for a name with `recorded`,
    they are those recorded."""
    from thalweg.optimize.indexes.amri import PAPER, Amri
    from thalweg.optimize.orders.chaos import ChaosTuner

    said = TunerName.parse(name)
    if said.kind == "chaos":
        return ChaosTuner(seed)
    chosen: dict[str, Any] = {**(PAPER if said.kind == "amri-paper" else {}), **said.parts}
    if chosen.pop("prices", "measured") == "measured" and measured is not None:
        chosen["prices"] = measured
    chosen |= options
    return Amri(name=name, hashes=said.number or None, seed=seed, **chosen)


def layout_and_tuner(index: str) -> tuple[str, str | None]:
    """What `index=` means: a layout that stays (`hash`, `bits`, `scan`), or a tuner by name.

    >>> layout_and_tuner("bits"), layout_and_tuner("amri partial")
    (('bits', None), ('hash', 'amri partial'))
    """
    if index in ("hash", "bits", "scan"):
        return index, None
    TunerName.parse(index)
    return "hash", index
