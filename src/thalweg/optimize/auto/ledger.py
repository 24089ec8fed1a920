"""The ledger: what may be spent on looking around, and what was. All in seconds.

Invariant, the no-regret bound: looking for a better order and learning classes each cost at most `regret` of all work,
plus a part of what decisions saved, plus a loan that pays for the first looks before there is work to take a share of.
For orders it is never more than a tenth of the work done so far: a query over in a moment has nothing to learn for. Of
what was saved only half counts for orders and a quarter for classes, because it is an estimate; a loss counts whole.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

EAGER = 0.1
"""Share of the work done so far that a loan may be. Halved or doubled, the first order is found later or sooner."""


@dataclass
class Ledger:
    """Work done, what looking around cost, and what was saved against the written order.

    >>> ledger = Ledger(regret=0.02, loan=1.0)
    >>> ledger.useful, ledger.saved = 100.0, 10.0
    >>> ledger.spend(3.0)
    >>> round(ledger.allowance, 2), round(ledger.tuition, 2)
    (5.06, 5.56)
    """

    regret: float = 0.01
    """Share of all work that each of the two may take where nothing is saved."""
    loan: float = 0.0
    """Seconds that may be spent before anything is earned."""
    useful: float = 0.0
    """Seconds of work that had to be done."""
    spent: float = 0.0
    """Seconds spent on looking for a better order."""
    saved: float = 0.0
    """Estimated seconds that the routes in force saved against the written order; below 0 where they lost."""
    taught: float = 0.0
    """Seconds spent on learning classes."""

    @property
    def work(self) -> float:
        return self.useful + self.spent

    @property
    def earned(self) -> float:
        """Seconds that may have been spent on orders so far, without any loan."""
        return self.regret * self.work + min(self.saved, 0.5 * self.saved)

    @property
    def allowance(self) -> float:
        """Seconds that may be spent on orders now."""
        return self.balance(min(self.saved, 0.5 * self.saved), self.regret)

    def balance(self, saved: float, share: float) -> float:
        """What may be spent on orders now if `saved` and a `share` of the work count."""
        return share * self.work + min(self.loan, EAGER * self.work) + saved - self.spent

    @property
    def tuition(self) -> float:
        """Seconds that may be spent on learning classes now."""
        earned = 0.25 * max(self.saved, 0.0)
        return self.regret * self.work + self.loan + earned - self.taught

    def spend(self, seconds: float) -> None:
        self.spent += seconds

    def snapshot(self) -> dict[str, Any]:
        return asdict(self)

    def restore(self, record: dict[str, Any]) -> None:
        for name, value in record.items():
            setattr(self, name, float(value))
