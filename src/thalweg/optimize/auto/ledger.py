"""The ledger: what may be spent on looking around, and what was. All in seconds.

Invariant, the no-regret bound: what was spent stays below a share of all work (`regret`), half of what decisions saved,
and a loan that pays for the first looks before there is work to take a share of. Only half of a saving counts, because
it is an estimate; a loss counts whole.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass
class Ledger:
    """Work done, what looking around cost, and what was saved against the written order.

    >>> ledger = Ledger(regret=0.02, loan=1.0)
    >>> ledger.useful, ledger.saved = 100.0, 10.0
    >>> ledger.spend(3.0)
    >>> round(ledger.allowance, 2)
    5.06
    """

    regret: float = 0.02
    """Share of all work that may be spent where nothing is saved."""
    loan: float = 0.0
    """Seconds that may be spent before anything is earned."""
    useful: float = 0.0
    """Seconds of work that had to be done."""
    spent: float = 0.0
    """Seconds spent on looking around."""
    saved: float = 0.0
    """Estimated seconds that the routes in force saved against the written order; below 0 where they lost."""

    @property
    def work(self) -> float:
        return self.useful + self.spent

    @property
    def allowance(self) -> float:
        """Seconds that may be spent now."""
        return self.regret * self.work + min(self.saved, 0.5 * self.saved) + self.loan - self.spent

    def spend(self, seconds: float) -> None:
        self.spent += seconds

    def snapshot(self) -> dict[str, Any]:
        return asdict(self)

    def restore(self, record: dict[str, Any]) -> None:
        for name, value in record.items():
            setattr(self, name, float(value))
