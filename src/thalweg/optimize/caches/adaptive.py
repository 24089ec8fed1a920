"""`auto`: A-Caching (thesis 5.5.5). Watches candidates, uses those that pay, drops one at once when it costs more.

A candidate is Profiled (watched, not used), Used, or Unused. All begin Profiled, unless not even a cache that never
misses would pay. Once every statistic has its observations, selection chooses; after an interval the others are watched
again. Orders come first: a change of an input's order makes its candidates anew. Where nothing changed by more than a
fifth, nothing is selected again, and the interval doubles. Beyond the thesis: caches whose changes no route computes are
candidates too, at the price of computing them; the price of a visit counts; time is counted in rows of the query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from thalweg.contract.visits import Journey, Visits
from thalweg.optimize.caches.candidates import Candidate, Orders, candidates, is_closed
from thalweg.optimize.caches.costs import Estimate
from thalweg.optimize.caches.estimating import Estimating
from thalweg.optimize.caches.select import Choice, select
from thalweg.optimize.caches.standing import Standing, covered, group_net
from thalweg.optimize.caches.tuner import Proposals
from thalweg.plan import Reason
from thalweg.plan.cached import Cached, Placed
from thalweg.plan.graph import JoinGraph
from thalweg.profile.prices import RECORDED, Prices
from thalweg.profile.rates.flows import WINDOW, Flows

INTERVAL = 10_000
"""Size: rows of the query between two re-optimizations (5.8.5)."""
GATE = 0.2
"""Tested: selection runs again if a benefit or a cost moved by more (5.5.5)."""
PATIENCE = 64
"""Tested: intervals that a quiet tuner waits, at most."""
NEVER = 1 << 62
"""Mark: rows at which nothing is due."""
QUOTA = 6
"""Size: candidates that are watched at once (5.7: m)."""
WEIGHED = 24
"""Size: candidates that selection weighs."""
MARGIN = 0.1
"""Tested: the share below which nothing counts. A cache comes into force if it saves this share of all seconds at stems,
as less drowns in what is not modelled; selection does not wait for inputs that bring fewer of all rows."""


class AdaptiveCaches(Proposals):
    """See the module's head."""

    name = "auto"

    def __init__(self, prices: Prices = RECORDED, interval: int = INTERVAL, *, force: bool = False) -> None:
        super().__init__()
        self.prices, self.interval, self.force = prices, interval, force
        self.standing: dict[Placed, Standing] = {}
        self.selections = 0
        self._orders: dict[int, tuple[int, ...]] = {}
        self._due = 0
        """Rows at which the next step is due."""
        self._patience = 1
        self._watched: set[Placed] = set()
        self._looking = False
        """Whether candidates to watch were chosen since the last step."""
        self._selected: dict[Placed, tuple[float, float]] = {}
        """Benefits and costs at the last selection."""

    def begin(self, graph: JoinGraph) -> None:
        super().begin(graph)
        self.flows = Flows(len(graph))
        self.estimating = Estimating(graph, self.flows, self.prices)
        self._next = [0] * len(graph)
        """Rows at which a batch of an input is read while nothing is due."""

    # What is heard

    def orders(self, orders: Orders) -> None:
        """Orders in force. Candidates that hold under the new ones stay as they are."""
        assert self.graph is not None
        changed = {i for i, o in orders.items() if self._orders.get(i) != tuple(o)}
        for i in changed:
            self.flows.forget(i)
        self._orders = self.estimating.orders = {i: tuple(o) for i, o in orders.items()}
        found = every(self._orders, self.graph)
        before, self.standing = self.standing, {}
        for c in found:
            old = before.get(c.placed)
            kept = old is not None and old.candidate == c and c.placed.input not in changed
            self.standing[c.placed] = (
                old if kept and old is not None else Standing(c, is_closed(self._orders, c.inputs))
            )
            self.standing[c.placed].closed = is_closed(self._orders, c.inputs)
        for placed, old in before.items():
            if old.state == "used" and self.standing.get(placed) is not old:
                self._say(placed, Reason("the order of its rows changed"))
        self._due, self._patience, self._selected = self.tuples if self.standing else NEVER, 1, {}
        self._looking, self._watched = False, set()
        self._place()

    def heard(self, i: int, visits: Visits) -> None:
        """What a batch of an input met. While nothing is due, only some are read."""
        self.tuples += visits.rows
        self.flows.arrived(i, visits.rows)
        self.listening = self.tuples >= self._due or (bool(self._wanted) and self.tuples >= self._next[i])
        if self.listening:
            self._next[i] = self.tuples + self.estimating.worth(self.prices.ask)
            for journey in visits.journeys:
                self._hear(i, journey)

    def _hear(self, i: int, journey: Journey) -> None:
        assert self.graph is not None
        order, first = self._orders.get(i, ()), len(journey.ruster.route) - len(self.graph) + 1
        others = [j for j in range(len(self.graph)) if j != i]
        came = tuple(others[op - first] for op in journey.ruster.route if op >= first)
        if came != order or not journey.rows or len(journey.ruster.routes) > 1:
            return
        hidden = set[int]() if journey.ruster.purpose == "profile" else covered(self.standing.values(), i)
        met = {others[v.operator - first]: v for v in journey.visits if v.operator >= first}
        for place, j in enumerate(order):
            if place in hidden:
                continue
            v = met.get(j)
            if v is None:
                self.flows.observe(i, place, journey.rows, 0, 0, 0.0)
                continue
            p = self.prices
            seconds = v.rows_in * p.request + v.hashes * p.hash + v.buckets * p.bucket
            seconds += (v.work - v.buckets) * p.candidate
            self.flows.observe(i, place, journey.rows, v.rows_in, v.rows_out, seconds, v.judging)

    def missed(self, placed: Placed, rows: int, misses: float) -> None:
        """Of some rows that came to a cache, used or watched, how many missed."""
        standing = self.standing.get(placed)
        if standing is not None and rows:
            standing.misses.append((rows, misses))

    @property
    def watched(self) -> set[Placed]:
        """The candidates whose keys are to be counted."""
        return self._watched

    def _watch(self) -> set[Placed]:
        """Those that would save most if they never missed, at most `QUOTA`: counting keys costs, too."""
        plain = self.estimating.plain()
        whole = sum(plain.values())
        worth = {i for i in self._orders if sum(s for (j, _), s in plain.items() if i == j) >= MARGIN * whole}
        hopes = list[tuple[float, int, Placed]]()
        for k, (p, s) in enumerate(self.standing.items()):
            if s.state == "profiled" and p.input in worth and self.estimating.known(s.candidate):
                hope = s.weigh(self.estimating, 0.0).net
                if hope > (0.0 if self.force else MARGIN * whole):
                    hopes.append((-hope, k, p))
        self._watched = {p for _, _, p in sorted(hopes)[:QUOTA]}
        return self._watched

    # What is decided

    def decide(self) -> None:
        """Called between batches."""
        self.tick()
        for placed, s in self.standing.items():
            if s.state == "used" and len(s.misses) == WINDOW:
                s.estimate = s.weigh(self.estimating)
                if s.estimate is not None and group_net(s, self.standing.values()) < 0 and not self.force:
                    s.state = "unused"
                    self._say(placed, _reason("it costs more than it saves", s.estimate))
                    self._place()
        if self.tuples < self._due or not self.tuples:
            return
        main = [i for i in self._orders if self.flows.rate(i) >= MARGIN]
        if any(self.flows.known(i, k) < WINDOW for i in main for k in range(len(self._orders[i]))):
            return
        if not self._looking:
            self._looking = True
            self._watch()
        if all(len(self.standing[p].misses) >= WINDOW for p in self._watched if p.input in main):
            self._reoptimize()

    def _reoptimize(self) -> None:
        for p, s in self.standing.items():
            if (p in self._watched or s.state == "used") and self.estimating.known(s.candidate) and s.misses:
                s.estimate = s.weigh(self.estimating)
        now = {p: (s.estimate.benefit, s.estimate.cost) for p, s in self.standing.items() if s.estimate is not None}
        if self._moved(now):
            self._select()
            self._selected = now
            self._patience = 1
        else:
            self._patience = min(2 * self._patience, PATIENCE)
        for s in self.standing.values():
            if s.state == "profiled":
                s.state = "unused"
        self._watched, self._looking = set(), False
        # Weighing a candidate costs about what weighing layouts does; reading a batch, what asking a policy does.
        look = (1 + len(self.standing)) * self.prices.select
        self._due = self.tuples + max(self._patience * self.interval, self.estimating.worth(look))

    def _moved(self, now: Mapping[Placed, tuple[float, float]]) -> bool:
        """Whether a benefit or a cost has changed by more than the gate, of what all stems take."""
        scale = sum(self.estimating.plain().values())
        for p, pair in now.items():
            old = self._selected.get(p)
            if old is None or any(
                abs(a - b) > GATE * max(abs(b), MARGIN * scale) for a, b in zip(pair, old, strict=True)
            ):
                return True
        return False

    def _select(self) -> None:
        self.selections += 1
        plain = self.estimating.plain()
        hopeful = [s for s in self.standing.values() if s.estimate is not None and s.estimate.benefit > 0]
        known = sorted(hopeful, key=lambda s: -s.estimate.net if s.estimate is not None else 0.0)[:WEIGHED]
        choices = [Choice(s.candidate, s.estimate.proc, s.estimate.cost) for s in known if s.estimate is not None]
        chosen = {c.candidate.placed for c in select(choices, plain)}
        if not self.force:
            whole = sum(plain.values())
            gain = {p: e.net for p in chosen if (e := self.standing[p].estimate) is not None}
            chosen = {p for p in chosen if gain.get(p, 0.0) > MARGIN * whole}
        for p, s in self.standing.items():
            if s.estimate is None:
                continue
            before, s.state = s.state, "used" if p in chosen else "unused"
            if p in chosen:
                self._say(p, _reason("it saves more than it costs", s.estimate), s.estimate)
            elif before == "used":
                self._say(p, _reason("others save more", s.estimate), s.estimate)
            else:
                s.why = _reason("it does not pay", s.estimate)
            if before != s.state:
                s.misses.clear()
        self._place()

    def tick(self) -> None:
        """Watch the unused again when the interval is over (5.5.5 b: a used cache hides the keys of those inside it, so
        it rests meanwhile)."""
        if self.tuples < self._due or self._looking or any(s.state == "profiled" for s in self.standing.values()):
            return
        for s in self.standing.values():
            if s.state == "unused":
                s.state = "profiled"
                s.misses.clear()
        used = [s for s in self.standing.values() if s.state == "used"]
        for s in used:
            inner = [o for o in self.standing.values() if s.candidate.contains(o.candidate) and o.state == "profiled"]
            assert s.estimate is not None
            if any(o.weigh(self.estimating, 0.0).net > s.estimate.net for o in inner):
                s.state = "profiled"
                s.misses.clear()
                self._say(s.candidate.placed, Reason("watched again, with what is inside it"))
        self._place()

    def _place(self) -> None:
        self.want([p for p, s in self.standing.items() if s.state == "used"])

    def _say(self, placed: Placed, why: Reason, estimate: Estimate | None = None) -> None:
        assert self.graph is not None
        name = placed.named(self.graph.aliases)
        self._whys[name] = why
        if estimate is not None:
            self._costs[name] = (estimate.segment, estimate.proc + estimate.cost)
        if placed in self.standing:
            self.standing[placed].why = why

    # As values

    def views(self) -> list[Standing]:
        return list(self.standing.values())

    def priorities(self) -> dict[Cached, float]:
        """Net benefit per byte of each store in use."""
        found: dict[Cached, float] = {}
        for s in self.standing.values():
            if s.state == "used" and s.estimate is not None:
                cached = s.candidate.placed.cached
                found[cached] = max(found.get(cached, float("-inf")), s.estimate.priority)
        return found

    def snapshot(self) -> dict[str, Any]:
        entries = [[_number(p), s.snapshot()] for p, s in self.standing.items()]
        selected = [[_number(p), list(pair)] for p, pair in self._selected.items()]
        return {
            **super().snapshot(), "standing": entries, "flows": self.flows.snapshot(), "due": self._due,
            "patience": self._patience, "next": list(self._next), "selected": selected, "selections": self.selections,
            "orders": [[i, list(o)] for i, o in self._orders.items()], "looking": self._looking,
            "watched": [_number(p) for p in self.standing if p in self._watched],
        }  # fmt: skip

    def restore(self, record: dict[str, Any]) -> None:
        assert self.graph is not None
        super().restore(record)
        self._orders = self.estimating.orders = {i: tuple(o) for i, o in record["orders"]}
        found = {_key(_number(c.placed)): c for c in every(self._orders, self.graph)}
        self.standing = {}
        for number, entry in record["standing"]:
            c = found[_key(number)]
            s = self.standing[c.placed] = Standing(c, is_closed(self._orders, c.inputs))
            s.restore(entry)
        self.flows.restore(record["flows"])
        self._due, self._patience, self.selections = record["due"], record["patience"], record["selections"]
        self._next = list(record["next"])
        self._selected = {found[_key(n)].placed: (pair[0], pair[1]) for n, pair in record["selected"]}
        self._looking, self._watched = record["looking"], {found[_key(n)].placed for n in record["watched"]}


def every(orders: Orders, graph: JoinGraph) -> list[Candidate]:
    """Prefix caches first, then those of other segments, whose changes are computed apart."""
    found = candidates(orders, graph)
    known = {(c.placed.input, c.first, c.last) for c in found}
    for i, order in sorted(orders.items()):
        for first in range(len(order)):
            before = frozenset([i, *order[:first]])
            for last in range(first + 1, len(order)):
                inputs = frozenset(order[first : last + 1])
                keys = graph.keys(before, inputs)
                if (i, first, last) not in known and keys and inputs <= graph.stored:
                    found.append(Candidate(Placed(i, Cached(inputs, keys)), first, last))
    return found


def _reason(sentence: str, e: Estimate) -> Reason:
    return Reason.of(
        sentence + ": {saved:.3g} s a row saved, {cost:.3g} s to keep up, {miss:.0%} of the rows miss",
        saved=e.benefit, cost=e.cost, miss=e.miss,
    )  # fmt: skip


def _number(placed: Placed) -> list[Any]:
    c = placed.cached
    return [placed.input, sorted(c.inputs), list(c.keys), list(c.judges)]


def _key(number: Sequence[Any]) -> tuple[Any, ...]:
    return number[0], *(tuple(n) for n in number[1:])
