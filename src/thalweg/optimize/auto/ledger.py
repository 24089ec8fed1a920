"""The ledger: what profiling may cost, and what it did cost. All in seconds.

Invariant, the no-regret bound: looking for a better order and learning classes each cost at most `regret` of all work,
plus part of what decisions saved, plus a loan for the first looks, before there is work to take a share of. The loan
for orders never exceeds a tenth of the work so far: a very short query has nothing to learn for. Savings are estimates,
so only half count for orders and a quarter for classes; losses count in full.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

SHARE = 0.03
"""Derived: the project's goal. Where nothing can be gained, adapting costs at most this share of the work."""
EAGER = 0.1
"""Tested: largest loan as a share of the work so far. Halved or doubled, the first order is found later or sooner."""


@dataclass
class Ledger:
    """Work done, the cost of profiling, and savings against the written order.

    >>> ledger = Ledger(regret=0.02, loan=1.0)
    >>> ledger.useful, ledger.saved = 100.0, 10.0
    >>> ledger.spend(3.0)
    >>> round(ledger.allowance, 2), round(ledger.tuition, 2)
    (5.06, 5.56)
    """

    regret: float = 0.01
    """Share of all work that each of the two may take if nothing is saved."""
    loan: float = 0.0
    """Seconds that may be spent before anything is earned."""
    useful: float = 0.0
    """Seconds of necessary work."""
    spent: float = 0.0
    """Seconds spent on looking for a better order."""
    saved: float = 0.0
    """Estimated seconds that the routes in force saved against the written order; negative for a loss."""
    taught: float = 0.0
    """Seconds spent on learning classes."""

    @property
    def work(self) -> float:
        return self.useful + self.spent

    @property
    def earned(self) -> float:
        """Seconds allowed for orders so far, without any loan."""
        return self.regret * self.work + min(self.saved, 0.5 * self.saved)

    @property
    def allowance(self) -> float:
        """Seconds allowed for orders now."""
        return self.balance(min(self.saved, 0.5 * self.saved), self.regret)

    def balance(self, saved: float, share: float) -> float:
        """Seconds allowed for orders now if `saved` and a `share` of the work count."""
        return share * self.work + min(self.loan, EAGER * self.work) + saved - self.spent

    @property
    def tuition(self) -> float:
        """Seconds allowed for learning classes now."""
        earned = 0.25 * max(self.saved, 0.0)
        return self.regret * self.work + self.loan + earned - self.taught

    def spend(self, seconds: float) -> None:
        self.spent += seconds

    def snapshot(self) -> dict[str, Any]:
        return asdict(self)

    def restore(self, record: dict[str, Any]) -> None:
        for name, value in record.items():
            setattr(self, name, float(value))
