"""Independent, Sweep, LocalSwaps, Lottery, Written: counters against plain twins, invariants, and the registry."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from thalweg import optimize
from thalweg.contract.batch import Batch
from thalweg.contract.policy import Policy
from thalweg.contract.visits import Visits
from thalweg.engine.engine import Engine
from thalweg.errors import CheckpointError, DefinitionError
from thalweg.lab.simulate import best_order, run, travel
from thalweg.language.bind import bind
from thalweg.language.query import Source
from thalweg.optimize.orders.agreedy import AGreedy
from thalweg.optimize.orders.independent import Independent
from thalweg.optimize.orders.localswaps import LocalSwaps
from thalweg.optimize.orders.lottery import Lottery
from thalweg.optimize.orders.sweep import Sweep
from thalweg.plan import Operator, Pipeline, Route, Ruster
from thalweg.plan.ruster import Also


def filters(count: int) -> Pipeline:
    return Pipeline("s", tuple(Operator(f"f{i}") for i in range(count)))


def correlated(random: np.random.Generator, rows: int, rates: np.ndarray, together: float) -> np.ndarray:
    shared, own = random.random((rows, 1)), random.random((rows, len(rates)))
    return np.where(random.random((rows, len(rates))) < together, shared, own) < rates


def profile(policy: Policy, bits: np.ndarray, costs: np.ndarray, also: Also) -> None:
    """All tuples of a batch profiled the way the policy asks for."""
    journey = travel(bits, costs, Ruster(np.arange(len(bits)), policy.plan.route, "profile", also))
    policy.observe(Visits(0, len(bits), (journey,)))


# --- Sweep ------------------------------------------------------------------------------------------------------------


class PlainSweep:
    """The diagonal up to place j and column j, tuple by tuple (thesis 4.4)."""

    def __init__(self, order: tuple[int, ...], place: int) -> None:
        self.order, self.place = order, place
        self.diagonal = [0] * len(order)
        self.column = [0] * len(order)
        self.logged = 0

    def count(self, passes: list[bool]) -> None:
        dropped = [not passes[f] for f in self.order]
        if not any(dropped[: self.place + 1]) and not any(dropped):
            return
        k = dropped.index(True)
        self.logged += 1
        if k <= self.place:
            self.diagonal[k] += 1
        if k <= self.place and dropped[self.place]:
            for i in range(min(k, self.place) + 1):
                self.column[i] += 1

    def violated(self, costs: np.ndarray, alpha: float) -> int | None:
        j = self.place
        for i in range(j):
            if self.diagonal[i] / costs[self.order[i]] < alpha * self.column[i] / costs[self.order[j]]:
                return i
        return None


@pytest.mark.parametrize("seed", range(20))
def test_sweep_counts_and_moves_as_a_plain_twin(seed: int) -> None:
    random = np.random.default_rng(seed)
    n = int(random.integers(2, 7))
    window = int(random.choice([20, 60, 150]))
    policy = Sweep(filters(n), seed, window=window)
    costs = random.choice([1.0, 2.0, 7.0], n)
    twin = PlainSweep(policy.order, policy.place)
    moves = 0
    for _ in range(60):
        assert policy.also() == frozenset({policy.order[policy.place]}), "at most one extra evaluation, that at place j"
        bits = correlated(random, int(random.integers(1, 40)), random.random(n), 0.5)
        for t in bits.tolist():
            twin.count(t)
        profile(policy, bits, costs, policy.also())
        place = twin.violated(policy.costs.per_row, policy.alpha) if twin.logged >= window // 5 else None
        order = list(twin.order)
        if place is not None:
            order.insert(place, order.pop(twin.place))
            moves += 1
        if place is not None or twin.logged >= window:
            twin = PlainSweep(tuple(order), twin.place + 1 if twin.place + 1 < n else 1)
        assert policy.order == twin.order
        assert policy.place == twin.place
        counted = policy.snapshot()
        assert (counted["logged"], counted["diagonal"], counted["column"]) == (twin.logged, twin.diagonal, twin.column)
    assert moves or n == 2, "the twins were never put to the test"


def test_sweep_gets_to_a_greedy_order() -> None:
    random = np.random.default_rng(1)
    bits = correlated(random, 150_000, np.array([0.8, 0.7, 0.6, 0.5, 0.4]), 0.5)
    r = run("sweep", bits, [1.0] * 5, seed=1, p=0.05)
    assert r.useful[-50:].sum() <= 1.05 * best_order(bits[-50_000:], [1.0] * 5)[1]
    assert r.extra.sum() < 0.06 * len(bits), "one evaluation at most for each profiled tuple"


# --- LocalSwaps -------------------------------------------------------------------------------------------------------


class PlainSwaps:
    """V[k, k] and V[k, k+1] by the digest's rule: dropped at k, would the next one have dropped it too (thesis 4.6)."""

    def __init__(self, order: tuple[int, ...], window: int) -> None:
        self.order, self.window = order, window
        self.seen: list[tuple[int, bool]] = []

    def count(self, passes: list[bool]) -> None:
        dropped = [not passes[f] for f in self.order]
        if any(dropped):
            k = dropped.index(True)
            self.seen = [*self.seen, (k, k + 1 < len(dropped) and dropped[k + 1])][-self.window :]

    def diagonals(self) -> tuple[list[int], list[int]]:
        own, beside = [0] * len(self.order), [0] * len(self.order)
        for k, too in self.seen:
            own[k] += 1
            beside[k] += too
            if k:
                beside[k - 1] += 1
        return own, beside


@pytest.mark.parametrize("seed", range(20))
def test_localswaps_counts_and_swaps_as_a_plain_twin(seed: int) -> None:
    random = np.random.default_rng(seed)
    n = int(random.integers(2, 7))
    policy = LocalSwaps(filters(n), seed, window=120, least=40)
    costs = random.choice([1.0, 2.0, 7.0], n)
    twin = PlainSwaps(policy.order, 120)
    swaps = 0
    for _ in range(100):
        bits = correlated(random, int(random.integers(1, 40)), random.random(n), 0.5)
        for t in bits.tolist():
            twin.count(t)
        own, beside = twin.diagonals()
        profile(policy, bits, costs, policy.also())
        a = policy.costs.per_row[list(twin.order)]
        if len(twin.seen) >= 40:
            for i in range(n - 1):
                if own[i] / a[i] < policy.alpha * beside[i] / a[i + 1]:
                    order = list(twin.order)
                    order[i], order[i + 1] = order[i + 1], order[i]
                    twin = PlainSwaps(tuple(order), 120)
                    swaps += 1
                    break
        assert policy.order == twin.order
        kept_own, kept_beside = policy.diagonals()
        own, beside = twin.diagonals()
        assert kept_own.tolist() == own
        assert kept_beside[:-1].tolist() == beside[:-1]
    assert swaps or n == 2, "the twins were never put to the test"


def test_localswaps_tries_only_the_next_filter() -> None:
    bits = np.zeros((50_000, 5), bool)
    r = run("localswaps", bits, [1.0] * 5, p=0.1)
    assert r.extra.sum() == pytest.approx(5_000, rel=0.1), "all is dropped at once: one extra for each profiled tuple"


# --- Independent ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_independent_keeps_its_invariant_on_the_window(seed: int) -> None:
    random = np.random.default_rng(seed)
    n = int(random.integers(2, 7))
    policy = Independent(filters(n), seed, window=80)
    costs = random.choice([1.0, 2.0, 7.0], n)
    for _ in range(30):
        profile(policy, correlated(random, int(random.integers(0, 30)), random.random(n), 0.6), costs, "all")
        window = policy.profile.bits.tolist()
        rank = [sum(t[f] for t in window) / policy.costs.per_row[f] for f in policy.order]
        for i in range(n):
            for j in range(i + 1, n):
                assert rank[i] >= policy.alpha * rank[j] * (1 - 1e-12)


def test_independent_compares_all_pairs_not_only_neighbours() -> None:
    """Drop counts of 100, 105, 112: no neighbour is better by more than α, but the last is better than the first."""
    drops = np.repeat(np.arange(3), [100, 105, 112])
    policy = Independent(filters(3))
    profile(policy, drops[:, None] != np.arange(3), np.ones(3), "all")
    assert policy.order == (2, 1, 0)


def test_independent_is_the_best_where_filters_are() -> None:
    random = np.random.default_rng(2)
    costs = [5.0, 1.0, 2.0, 1.0]
    bits = correlated(random, 200_000, np.array([0.2, 0.9, 0.5, 0.6]), 0.0)
    r = run("independent", bits, costs, seed=2, p=0.05)
    assert r.useful[50:].sum() <= 1.02 * best_order(bits[50_000:], costs)[1]


# --- Lottery ----------------------------------------------------------------------------------------------------------


def test_lottery_draws_in_proportion_to_tickets_per_cost() -> None:
    policy = Lottery(filters(3), seed=4, ruster=1)
    policy.tickets[:] = [10.0, 30.0, 60.0]
    first = np.zeros(3)
    for ruster in policy.route(Batch(pa.record_batch({"x": np.arange(20_000)}))):
        first[ruster.route.operators[0]] += 1
    assert first / first.sum() == pytest.approx([0.1, 0.3, 0.6], abs=0.02)


def test_lottery_draws_in_proportion_among_the_eligible() -> None:
    pipeline = Pipeline("s", (Operator("a"), Operator("b", after=frozenset({0})), Operator("c")))
    policy = Lottery(pipeline, seed=4, ruster=1)
    policy.tickets[:] = [10.0, 60.0, 30.0]
    first = np.zeros(3)
    for ruster in policy.route(Batch(pa.record_batch({"x": np.arange(4000)}))):
        first[ruster.route.operators[0]] += 1
    assert first / first.sum() == pytest.approx([0.25, 0.0, 0.75], abs=0.03)


def test_lottery_keeps_a_stake_in_everyone() -> None:
    policy = Lottery(filters(4))
    assert policy.chances == [0.25] * 4
    policy.tickets[:] = [0.0, 0.0, 0.0, 1e9]
    *losers, winner = policy.chances
    assert losers == [losers[0]] * 3
    assert 0.01 < sum(losers) < 0.02, "exploring costs a little, and not more"
    assert winner == pytest.approx(1 - sum(losers))


def test_lottery_learns_costs_too() -> None:
    bits = correlated(np.random.default_rng(3), 60_000, np.array([0.3, 0.4]), 0.0)
    r = run("lottery", bits, [20.0, 1.0], seed=3)
    assert r.final_order == (1, 0)


def test_lottery_tickets_fade() -> None:
    policy = Lottery(filters(2), half_life=1000)
    policy.tickets[:] = [800.0, 0.0]
    policy.observe(Visits(0, 3000, ()))
    assert policy.tickets.tolist() == pytest.approx([100.0, 0.0])


# --- products ---------------------------------------------------------------------------------------------------------

PRODUCT = Pipeline("s", tuple(Operator(f"s{i}", near=frozenset({i ^ 1})) for i in range(4)))
"""Two pairs, each reached only through its partner: one pair must be finished before the other is begun."""


@pytest.mark.parametrize(
    ("make", "also"),
    [
        (partial(AGreedy, follow=False), "all"),
        (AGreedy, "all"),
        (partial(Sweep, window=100), None),
        (partial(LocalSwaps, least=20), "next"),
        (Independent, "all"),
    ],
    ids=["agreedy of the thesis", "agreedy", "sweep", "localswaps", "independent"],
)
def test_pairs_that_nothing_connects_stay_together(make: Callable[[Pipeline], Policy], also: Also | None) -> None:
    """The best of all has the worst of all as its partner, which must follow it at once."""
    policy = make(PRODUCT)
    random = np.random.default_rng(1)
    for _ in range(60):
        bits = correlated(random, 60, np.array([0.6, 0.7, 1.0, 0.1]), 0.0)
        profile(policy, bits, np.ones(4), also or policy.also())  # type: ignore[attr-defined]
        assert PRODUCT.allows(policy.plan.route), policy.plan.route
    if not isinstance(policy, LocalSwaps):
        assert policy.plan.version > 0


# --- joins ------------------------------------------------------------------------------------------------------------

STREAM = Source(pa.schema([("ts", pa.int64()), ("x", pa.int64()), ("y", pa.int64()), ("z", pa.int64())]), "ts", "ms")
TABLE = Source(pa.schema([("k", pa.int64())]))
LOOKUPS = "SELECT s.ts FROM s [RANGE 1 SECONDS], t, u, v WHERE s.x = t.k AND s.y = u.k AND s.z = v.k"


def joined(policy: str) -> tuple[Engine, list[tuple[str, ...]]]:
    """Rows that match t eight times, u twice, and v one time in ten: as written, the worst order of all."""
    keys = np.arange(100)
    tables = {"t": np.repeat(keys, 8), "u": np.repeat(keys, 2), "v": keys[:10]}
    sources = {"s": STREAM, "t": TABLE, "u": TABLE, "v": TABLE}
    engine = Engine(bind(LOOKUPS, sources), policy=policy, tables={n: pa.table({"k": k}) for n, k in tables.items()})
    random = np.random.default_rng(2)
    for n in range(80):
        x, y, z = random.integers(0, 100, (3, 1000))
        engine.push("s", pa.table({"ts": np.arange(1000 * n, 1000 * n + 1000), "x": x, "y": y, "z": z}))
        engine.advance(1000 * n)
    return engine, [e.change.after[""] for e in engine.events() if e.change is not None]


@pytest.mark.parametrize("name", ["sweep", "localswaps", "independent", "agreedy"])
def test_joins_are_ordered_by_fan_out_and_cost(name: str) -> None:
    written, _ = joined("written")
    adapted, orders = joined(name)
    assert orders[-1] == ("v", "u", "t"), "the one that drops first, the one that multiplies most last"
    work = [e.stats()["inputs"]["s"]["work"] for e in (written, adapted)]
    assert work[1] < 0.5 * work[0]


# --- Written, and the registry ----------------------------------------------------------------------------------------


def test_written_never_changes_anything() -> None:
    bits = correlated(np.random.default_rng(3), 20_000, np.array([0.9, 0.1]), 0.0)
    r = run("written", bits, [1.0, 1.0])
    assert (r.final_order, r.events, r.extra.sum()) == ((0, 1), [], 0.0)


def test_the_registry_has_ours() -> None:
    ours = {"written", "independent", "agreedy", "sweep", "localswaps", "lottery", "chaos", "auto"}
    assert ours <= set(optimize.names())
    for name in ours:
        policy = optimize.make(name, filters(3), 1)
        assert policy.name == name
        assert isinstance(policy, Policy)


def test_an_unknown_policy_is_refused_with_a_hint() -> None:
    with pytest.raises(DefinitionError, match="no policy 'localswap'") as caught:
        optimize.make("localswap", filters(2))
    assert "did you mean 'localswaps'" in str(caught.value)


@pytest.mark.parametrize("name", optimize.names())
def test_what_another_query_learned_is_refused(name: str) -> None:
    record = optimize.make(name, filters(3)).snapshot()
    with pytest.raises(CheckpointError, match=r"is not one of the 2 operators|learned for 3 operators"):
        optimize.make(name, filters(2)).restore(record)


def test_options_reach_the_policy() -> None:
    assert optimize.make("agreedy", filters(2), 1, window=77).window == 77  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["agreedy", "sweep", "localswaps", "independent"])
def test_profiled_tuples_do_their_own_work_too(name: str) -> None:
    """A profiled row is not read twice: it leaves or is dropped like the others, and costs only what is extra."""
    policy = optimize.make(name, filters(3), 5)
    bits = correlated(np.random.default_rng(1), 5000, np.array([0.9, 0.5, 0.5]), 0.0)
    for start in range(0, 5000, 1000):
        batch = Batch(pa.record_batch({"x": np.arange(1000)}), start // 1000)
        rusters = policy.route(batch)
        assert sum(len(r.rows) if r.rows is not None else 1000 for r in rusters) == 1000
        journeys = tuple(travel(bits[start : start + 1000], np.ones(3), r) for r in rusters)
        policy.observe(Visits(start // 1000, 1000, journeys))
        assert all(r.route == Route(rusters[0].route.operators) for r in rusters), "one order for all"
