"""Scouting: when a policy that orders joins looks around, when it calls rows back, and when it rests.

Now and then a few rows of a batch go ahead as scouts; at every step of their route they are counted against the
operators that might have come instead, so that the rest of the batch already takes the order they ask for. While scouts
bring nothing new, they go half as often each time, down to the pace at which they cost no more than the ledger's share
of the work. A ruster that takes far more than expected is called back, and scouts go first; each time no better order is
found, twice as much is needed for the next recall. An order that takes more than it promised is weighed again, without
scouts. While nothing happens, the policy rests: it hears about several batches at once.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from thalweg.optimize.auto.ledger import Ledger
from thalweg.profile.prices import Prices
from thalweg.profile.rates.given import ENOUGH

SURPRISE = 1.5
"""Tested: how many times the usual cost of a row is a surprise: rows are called back, scouts go, an order is weighed again.
Sampling error of the few dozen rows behind an estimate is well below it."""
LONGEST = 12
"""Tested: batches that a policy hears about together at most."""


def beyond_doubt() -> float:
    """How many times off what was believed an observation is called a change: a surprise on top of a surprise."""
    return SURPRISE * SURPRISE


@dataclass
class Pace:
    """The state: plain JSON values."""

    looking: bool = False
    """Whether the rows to be routed next are scouts."""
    alarmed: bool = False
    """Whether the data was seen to have changed."""
    called: bool = False
    """Whether the scouts under way were sent because rows were called back."""
    again: bool = False
    """Whether further scouts go in the same batch: rows were called back, or scouts saw a change and no order that
    answers it, for the first time."""
    every: int = 0
    """Batches between scouts."""
    waited: int = 0
    """Batches since the last scouts."""
    asked: bool = False
    """Whether the policy was asked for scouts in the batch it is told about."""
    rounds: int = 0
    """Rounds of scouts sent."""
    rest: int = 0
    """Batches for which the policy need not be asked."""
    spell: int = 1
    """Batches for which it rests next."""
    rows: int = 1
    """Rows of the last batch."""
    leash: float = SURPRISE
    """How many times the expected cost calls rows back."""
    limited: bool = False
    """Whether the rows last routed had a limit."""
    usual: float | None = None
    """Seconds per row just after scouts last looked."""
    now: float = 0.0
    """Seconds per row of the batch last learned from."""
    promised: float | None = None
    """Seconds per row that an order was adopted for, until it has been tried."""
    filling: bool = True
    """Whether every batch so far took far more than the one before: windows are filling."""


class Scouting:
    """Decides when to look, on behalf of one policy."""

    def __init__(self, ledger: Ledger, prices: Prices, unit: float, scouts: int) -> None:
        self.ledger = ledger
        self.scouts = scouts
        self.trip = prices.ask + prices.send
        """Seconds that a round of scouts takes whatever they meet."""
        self.send = prices.send
        self.unit = unit
        self.pace = Pace()

    def ahead(self, rows: int, sent: int) -> int:
        """How many of the rows that are left go ahead as scouts, when `sent` of their batch went before."""
        pace = self.pace
        pace.looking, pace.asked = False, True
        if not sent and not pace.again:
            pace.waited += not pace.alarmed
            pace.rows = rows
        due = pace.again or (not sent and (pace.alarmed or self._due(rows)))
        wanted = min(self.scouts, rows // 4) if due else 0
        if wanted < 2 * ENOUGH or not self.affords(2.0 if pace.alarmed else 1.0):
            wanted = 0
        pace.looking = wanted > 0
        pace.called = pace.alarmed and not sent
        return wanted

    def _due(self, rows: int) -> bool:
        """At first, once there is work to save as much as scouts cost: when a stream begins, stems are all but empty."""
        if self.pace.rounds:
            return self.pace.waited > self.pace.every
        return self.ledger.useful + rows * self.unit >= self.trip

    def affords(self, times: float = 1.0) -> bool:
        """Whether the ledger pays for scouts, two rounds of them in advance. While the data changes they may cost twice as
        much."""
        return self.ledger.spent <= times * (self.ledger.earned + 2 * self.trip)

    def limit(self, expected: float | None) -> float | None:
        """Units of work per row at which rows are called back: several times the `expected` seconds, many times while
        windows fill, and so much more that a batch of it could repay the scouts. Not twice for the same rows."""
        pace = self.pace
        found: float | None = None
        if not pace.alarmed and self.affords(2.0):
            repaid = self.trip / max(pace.rows, 1)
            if not pace.rounds:
                found = repaid
            elif expected is not None:
                leash = max(pace.leash, 4 * SURPRISE) if pace.filling else pace.leash
                found = max(leash * (expected + self.unit), expected + repaid)
        pace.limited = found is not None
        return None if found is None else found / self.unit

    @property
    def settled(self) -> bool:
        """Whether scouts go seldom, or can't be afforded, and the data has not changed."""
        return not (self.pace.alarmed or self.pace.again) and (self.pace.every > 1 or not self.affords())

    def told(self, batches: int) -> None:
        """The policy hears about batches."""
        pace = self.pace
        pace.waited += max(batches - pace.asked, 0)
        pace.asked = False
        pace.spell = min(2 * pace.spell, LONGEST)

    def as_usual(self, rows: int, seconds: float) -> bool:
        """Whether a batch was like the last ones, so that there is nothing to learn from it."""
        pace = self.pace
        if not self.settled or pace.usual is None:
            return False
        usual = pace.usual * rows
        return usual / SURPRISE < seconds < usual * SURPRISE

    def looked(self, rows: int, *, paid: bool, found: bool, changed: bool) -> None:
        """Scouts came back. Did they bring an order (`found`) that repays them (`paid`), or a change?"""
        pace = self.pace
        pace.waited, pace.spell = 0, 1
        if found or changed:
            pace.usual = None
        if pace.called:
            pace.leash = SURPRISE if paid else 2 * pace.leash
        if pace.called:  # a change that was not answered is looked at again in the next batch
            pace.every = int(paid)
        else:
            pace.every = 1 if paid or changed else self._later(rows)
        pace.alarmed |= changed
        pace.again = changed and not found and not pace.again
        pace.looking = False

    def _later(self, rows: int) -> int:
        """Twice as many batches, until scouts cost no more than their share of the work."""
        batch = max(self.pace.now * self.pace.rows, self.send)
        most = int(self.trip / (self.ledger.regret * batch)) + 1
        return min(2 * self.pace.every + 1, most)

    def recalled(self) -> None:
        """Rows were called back."""
        self.pace.alarmed = self.pace.again = True
        self.pace.spell = 1
        self.ledger.spend(self.send)

    def travelled(self, rows: int, seconds: float, *, changed: bool) -> bool:
        """A batch went its way. Whether the order in force must be weighed again: it takes more than it promised."""
        pace = self.pace
        pace.alarmed, pace.again = changed, False
        now = seconds / max(rows, 1)
        pace.filling, pace.now = pace.filling and now > SURPRISE * pace.now, now
        surprised = pace.usual is not None and not pace.filling and now > SURPRISE * pace.usual
        if surprised:  # even just after scouts looked: a few of them may not have shown it
            pace.every, pace.spell = 0, 1
        if surprised or pace.usual is None or pace.filling or not pace.waited:
            pace.usual = now
        promised, pace.promised = pace.promised, None
        return promised is not None and now > SURPRISE * promised

    def settle_rest(self) -> None:
        """Nobody looks at batches that are not asked for: only where a limit calls back those that are not as expected."""
        pace = self.pace
        pace.rest = 0
        if self.settled and pace.usual is not None and pace.limited:
            left = pace.every - pace.waited if self.affords() else pace.spell
            pace.rest = max(min(pace.spell, left), 0)

    def snapshot(self) -> dict[str, Any]:
        return asdict(self.pace)

    def restore(self, record: dict[str, Any]) -> None:
        self.pace = Pace(**record)
