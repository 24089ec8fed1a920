"""A-Greedy for MJoins against brute force: star roots, trees, cycles, products, and fan-outs as an engine measures them.

Expected work of an order by its definition: each partial result that reaches a stem costs what that stem costs given
the stems before it, and leaves as many partial results as its fan-out given those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations, permutations

import numpy as np
import pyarrow as pa
import pytest

from thalweg.contract.batch import Batch
from thalweg.contract.visits import Journey, Visits
from thalweg.engine.block import BlockEngine
from thalweg.engine.piece import Piece
from thalweg.language.bind import bind
from thalweg.language.query import Source
from thalweg.optimize.orders.agreedy import AGreedy
from thalweg.plan import Operator, Pipeline, Route, Ruster
from thalweg.profile.prices import RECORDED, Prices
from thalweg.profile.rates.given import Seen

Truth = Callable[[frozenset[int], int], tuple[float, float]]
"""Fan-out and work per row of an operator, given what was visited before."""
ROWS = 1000
UNIT = (RECORDED.bucket + RECORDED.candidate) / 2
"""Seconds of a unit of work."""


def stems(*nears: Iterable[int] | None) -> Pipeline:
    """A pipeline of stems; `nears[k]` are the stems that connect stem k to the input, None where the input does."""
    operators = (
        Operator(f"s{k}", "stem", near=None if n is None else frozenset(n)) for k, n in enumerate(nears)
    )  # fmt: skip
    return Pipeline("a", tuple(operators))


def work(order: Sequence[int], truth: Truth) -> float:
    rows, total = 1.0, 0.0
    for k, op in enumerate(order):
        fanout, each = truth(frozenset(order[:k]), op)
        total += rows * each
        rows *= fanout
    return total


def allowed(pipeline: Pipeline) -> list[tuple[int, ...]]:
    return [o for o in permutations(range(len(pipeline))) if pipeline.allows(Route(o))]


def taught(pipeline: Pipeline, truth: Truth, alpha: float = 1.0, entry: float = 0.0) -> AGreedy:
    """A policy that was told the truth about every operator after every set of others."""
    policy = AGreedy(
        pipeline, alpha=alpha, prices=Prices(hash=0.0, candidate=1.0, bucket=1.0, insert=entry, delete=0.0)
    )
    every: list[Seen] = []
    for op in range(len(pipeline)):
        others = [o for o in range(len(pipeline)) if o != op]
        for size in range(len(others) + 1):
            for visited in map(frozenset, combinations(others, size)):
                fanout, each = truth(visited, op)
                every.append((visited, op, ROWS, ROWS * fanout, ROWS * each))
    policy.learn_from([], every)
    policy.decide()
    return policy


def independent(random: np.random.Generator, count: int) -> Truth:
    """A bucket and some candidates that do not match for each row, one candidate for each match; nothing depends."""
    fanouts = np.exp(random.uniform(np.log(0.02), np.log(8.0), count))
    idle = random.uniform(1.0, 5.0, count)
    return lambda visited, op: (float(fanouts[op]), float(idle[op] + fanouts[op]))


@pytest.mark.parametrize("seed", range(40))
def test_the_root_of_a_star_gets_the_best_order(seed: int) -> None:
    random = np.random.default_rng(seed)
    pipeline = stems(*[None] * int(random.integers(2, 7)))
    truth = independent(random, len(pipeline))
    best = min(work(o, truth) for o in allowed(pipeline))
    assert work(taught(pipeline, truth).order, truth) == pytest.approx(best)


def test_without_fan_out_it_is_the_thesis_ratio_of_drops_to_cost() -> None:
    """Stems that match at most once: the order of d/t, d the share of rows dropped, t the cost of a probe."""
    drops, costs = [0.2, 0.9, 0.5, 0.7], [1.0, 6.0, 1.5, 9.0]

    def truth(visited: frozenset[int], op: int) -> tuple[float, float]:
        return 1 - drops[op], costs[op] - 1 + (1 - drops[op])

    ratio = sorted(range(4), key=lambda k: -drops[k] / costs[k])
    assert list(taught(stems(*[None] * 4), truth).order) == ratio


@pytest.mark.parametrize("seed", range(20))
def test_the_root_of_a_star_with_correlated_stems_stays_within_four_times_the_best(seed: int) -> None:
    """Stems that drop rows together: the bound of the thesis for pipelined filters (4.3.3, 5.2.1)."""
    random = np.random.default_rng(1000 + seed)
    count = int(random.integers(2, 6))
    bits = random.random((400, count)) < random.uniform(0.1, 0.95, count)
    bits[:, -1] |= bits[:, 0]
    costs = random.uniform(1.0, 20.0, count)

    def truth(visited: frozenset[int], op: int) -> tuple[float, float]:
        reached = bits[bits[:, sorted(visited)].all(axis=1)]
        passed = float(reached[:, op].mean()) if len(reached) else 0.0
        return passed, costs[op] + passed

    pipeline = stems(*[None] * count)
    best = min(work(o, truth) for o in allowed(pipeline))
    assert work(taught(pipeline, truth).order, truth) <= 4 * best + 1e-9


def chains(random: np.random.Generator) -> Pipeline:
    """The input in the middle of chains: each stem waits for the one before it in its chain."""
    nears: list[Iterable[int] | None] = []
    for _ in range(int(random.integers(2, 4))):
        for place in range(int(random.integers(1, 4))):
            nears.append(None if place == 0 else [len(nears) - 1])
    return stems(*nears)


@pytest.mark.parametrize("seed", range(40))
def test_chains_from_the_input_get_the_best_order(seed: int) -> None:
    """A stem behind others is ranked with the path that leads to it, which is exact where paths do not fork."""
    random = np.random.default_rng(2000 + seed)
    pipeline = chains(random)
    truth = independent(random, len(pipeline))
    order = taught(pipeline, truth).order
    assert pipeline.allows(Route(order))
    assert work(order, truth) == pytest.approx(min(work(o, truth) for o in allowed(pipeline)))


def test_trees_that_fork_get_an_allowed_order_near_the_best() -> None:
    ratios = []
    for seed in range(150):
        random = np.random.default_rng(3000 + seed)
        count = int(random.integers(3, 7))
        parents = [int(random.integers(-1, k)) for k in range(count)]
        pipeline = stems(*(None if p < 0 else [p] for p in parents))
        truth = independent(random, count)
        order = taught(pipeline, truth).order
        assert pipeline.allows(Route(order)), f"seed {seed}"
        ratios.append(work(order, truth) / min(work(o, truth) for o in allowed(pipeline)))
    assert np.mean(ratios) < 1.02
    assert max(ratios) < 1.5


def test_a_stem_that_drops_all_pulls_the_way_to_it_forward() -> None:
    """a - s0 - s1 and a - s2: s0 alone multiplies, but behind it waits s1, which lets almost nothing through."""
    pipeline = stems(None, [0], None)
    fanouts = [5.0, 0.002, 1.2]
    order = taught(pipeline, lambda visited, op: (fanouts[op], 1 + fanouts[op])).order
    assert order == (0, 1, 2)
    fanouts[1] = 0.5
    assert taught(pipeline, lambda visited, op: (fanouts[op], 1 + fanouts[op])).order == (2, 0, 1)


def test_a_cycle_is_closed_where_that_is_selective() -> None:
    """a - s0 - s1 - s2 - a: s1 matches many with one side bound, few with both."""

    def truth(visited: frozenset[int], op: int) -> tuple[float, float]:
        fanout = {0: 2.0, 2: 3.0}.get(op, 0.1 if {0, 2} <= visited else 20.0)
        return fanout, 1 + fanout

    pipeline = stems(None, [0, 2], None)
    assert taught(pipeline, truth).order == (0, 2, 1)
    assert work((0, 2, 1), truth) == min(work(o, truth) for o in allowed(pipeline))


def test_the_way_to_a_stem_on_a_cycle_is_the_best_one() -> None:
    """s2 drops nearly all and hangs on s0 and s1. Through s0, which multiplies, its way costs thirteen times as much."""

    def truth(visited: frozenset[int], op: int) -> tuple[float, float]:
        fanout = {0: 20.0, 1: 1.0, 2: 0.01}[op]
        return fanout, 1 + fanout

    pipeline = stems(None, None, [0, 1])
    assert taught(pipeline, truth).order == (1, 2, 0)
    assert work((1, 2, 0), truth) == min(work(o, truth) for o in allowed(pipeline)) < work((0, 2, 1), truth) / 12


@pytest.mark.parametrize("seed", range(20))
def test_cyclic_graphs_get_allowed_orders_without_products(seed: int) -> None:
    random = np.random.default_rng(4000 + seed)
    count = int(random.integers(3, 7))
    edges = {frozenset((k, int(random.integers(-1, k)))) for k in range(count)}
    edges |= {frozenset(map(int, random.choice(np.arange(-1, count), 2, replace=False))) for _ in range(count)}
    nears = [None if {-1, k} in edges else [o for o in range(count) if {o, k} in edges] for k in range(count)]
    pipeline = stems(*nears)
    order = taught(pipeline, independent(random, count)).order
    bound = {-1}
    for op in order:
        assert any({op, b} in edges for b in bound), f"seed {seed}: {order} forms a product at {op}"
        bound.add(op)


def test_a_product_comes_last_where_the_query_has_one() -> None:
    pipeline = stems(None, [], None)
    order = taught(pipeline, lambda visited, op: ((3.0, 4.0), (0.01, 1.01), (2.0, 3.0))[op]).order
    assert order[-1] == 1


def test_a_small_gain_does_not_reorder() -> None:
    """Thrash avoidance: a change needs a gain of 1 - α."""
    truth: Truth = lambda visited, op: ((0.50, 1.50), (0.48, 1.48))[op]  # noqa: E731
    assert taught(stems(None, None), truth, alpha=0.9).order == (0, 1)
    assert taught(stems(None, None), truth, alpha=1.0).order == (1, 0)
    assert taught(stems(None, None), truth, alpha=1.0, entry=1.0).order == (0, 1), "it may need another index"


# --- as an engine measures it -----------------------------------------------------------------------------------------

KEYED = Source(pa.schema([("ts", pa.int64()), ("k", pa.int64())]), "ts", "ms")
TEXT = "SELECT a.ts FROM a, b, c WHERE a.k = b.k AND a.k = c.k WINDOW 1000 SECONDS"


def keyed(times: Iterable[int], keys: Iterable[int]) -> pa.Table:
    return pa.table({"ts": pa.array(times, pa.int64()), "k": pa.array(keys, pa.int64())})


def told(policy: AGreedy, on_way: list[Seen], rivals: list[Seen]) -> None:
    """Let it know what rows met, in units of work, and decide."""
    ways, others = ([(v, o, n, out, UNIT * w) for v, o, n, out, w in seen] for seen in (on_way, rivals))
    policy.learn_from(ways, others)
    policy.decide()


def policy_of(engine: BlockEngine, alias: str) -> AGreedy:
    found = next(s.policy for s in engine.stages if s.input.alias == alias)
    greedy = getattr(found, "greedy", found)  # `auto` stands on it
    assert isinstance(greedy, AGreedy)
    return greedy


def test_fan_outs_are_measured_given_what_was_joined_before() -> None:
    """b knows the even keys, once; c knows the even keys four times and no odd one: 2 on average, 4 after b."""
    engine = BlockEngine(bind(TEXT, dict.fromkeys("abc", KEYED)), policy="agreedy")
    engine.push("b", keyed([0] * 50, range(0, 100, 2)))
    engine.push("c", keyed([0] * 200, [k for k in range(0, 100, 2) for _ in range(4)]))
    random = np.random.default_rng(5)
    for t in range(1, 40):
        engine.push("a", keyed([t] * 400, random.integers(0, 100, 400)))
    fanouts = policy_of(engine, "a").costs.given
    b, c = 0, 1
    first, second = fanouts.believe(frozenset(), c), fanouts.believe(frozenset({b}), c)
    assert first is not None
    assert second is not None
    assert second.fanout == 4.0
    assert first.fanout == pytest.approx(2.0, abs=0.8)
    belief = fanouts.believe(frozenset({c}), b)
    assert belief is None or belief.fanout in (1.0, pytest.approx(0.5, abs=0.2))
    assert policy_of(engine, "a").order == (b, c)


def test_scouts_grow_rare_while_nothing_changes() -> None:
    engine = BlockEngine(bind(TEXT, dict.fromkeys("abc", KEYED)), policy="auto")
    random = np.random.default_rng(6)
    for name in "bc":
        engine.push(name, keyed([0] * 300, random.integers(0, 300, 300)))
    policy = policy_of(engine, "a")
    rounds = []
    for t in range(1, 401):
        engine.push("a", keyed([t] * 400, random.integers(0, 300, 400)))
        rounds.append(policy.scouting.pace.rounds)
    assert 1 <= rounds[-1] - rounds[49] <= 14
    ledger = policy.ledger
    allowed = ledger.allowance + ledger.spent
    assert ledger.spent <= 2 * allowed + policy.scouting.trip, "an alarm may double it, and the last round goes over it"


def about_to_turn(rows: int, matches: int) -> tuple[BlockEngine, AGreedy, pa.Table]:
    """An engine whose tuples match b and not c, a policy that visits c first, and a batch of which it is the other way."""
    engine = BlockEngine(bind(TEXT, dict.fromkeys("abc", KEYED)), policy="auto", seed=1)
    random = np.random.default_rng(7)
    many = [k for k in range(200) for _ in range(matches)]
    engine.push("b", keyed([0] * len(many), many))
    engine.push("c", keyed([0] * len(many), [k + 200 for k in many]))
    for t in range(1, 30):
        engine.push("a", keyed([t] * rows, random.integers(0, 200, rows)))
    policy = policy_of(engine, "a")
    assert policy.plan.route.named(policy.pipeline.names) == "c → b"
    return engine, policy, keyed([30] * rows, random.integers(200, 400, rows))


def test_when_the_data_turns_round_so_does_the_order_within_the_batch() -> None:
    """c stops dropping and b begins to: the batch in which that happens is called back and scouted again."""
    engine, policy, turned = about_to_turn(rows=4000, matches=16)
    work = engine.stats()["inputs"]["a"]["work"]
    engine.push("a", turned)
    assert policy.plan.route.named(policy.pipeline.names) == "b → c"
    taken = engine.stats()["inputs"]["a"]["work"] - work
    assert taken < 4000 * 5, "the old order would have taken seventeen units and more for each row"


def test_a_batch_that_could_not_repay_the_scouts_is_not_called_back() -> None:
    engine, policy, turned = about_to_turn(rows=1000, matches=8)
    rounds = policy.scouting.pace.rounds
    engine.push("a", turned)
    assert policy.scouting.pace.rounds == rounds
    for _ in range(20):  # the next ones are looked at, as soon as that can be afforded
        engine.push("a", turned)
    assert policy.plan.route.named(policy.pipeline.names) == "b → c"


def test_the_first_batches_go_without_scouts_unless_they_are_dear_or_large() -> None:
    def rounds(rows: int, matches: int, batches: int) -> int:
        engine = BlockEngine(bind(TEXT, dict.fromkeys("abc", KEYED)), policy="agreedy")
        for name in "bc":
            engine.push(name, keyed([0] * 100 * matches, [k for k in range(100) for _ in range(matches)]))
        for t in range(1, batches + 1):
            engine.push("a", keyed([t] * rows, np.random.default_rng(t).integers(0, 100, rows)))
        return policy_of(engine, "a").scouting.pace.rounds

    assert rounds(1000, 1, 1) == 0
    assert rounds(1000, 1, 4) == 1
    assert rounds(1000, 20, 1) > 0
    assert rounds(30_000, 1, 1) == 1


def test_an_order_that_takes_more_than_it_promised_is_weighed_again() -> None:
    """Scouts of an odd moment said that nothing matches c. The first batch shows otherwise, and no scouts are needed."""
    engine = BlockEngine(bind(TEXT, dict.fromkeys("abc", KEYED)), policy="agreedy")
    random = np.random.default_rng(14)
    engine.push("b", keyed([0] * 1000, random.integers(0, 1000, 1000)))
    engine.push("c", keyed([0] * 4000, random.integers(0, 1000, 4000)))
    policy = policy_of(engine, "a")
    b, c = range(2)
    told(
        policy,
        [(frozenset(), b, 48, 48.0, 96.0), (frozenset({b}), c, 48, 192.0, 240.0)],
        [(frozenset(), c, 48, 0.0, 0.0)],
    )
    assert policy.order == (c, b)
    engine.push("a", keyed([1] * 1000, random.integers(0, 1000, 1000)))
    assert policy.order == (b, c)
    assert policy.scouting.pace.rounds == 0


def test_more_indexes_must_save_more() -> None:
    """b and c share a key, so that the other order looks into two indexes that this one has no use for."""
    b, c = Operator("b", "stem", keys=frozenset({0, 2})), Operator("c", "stem", keys=frozenset({1, 2}))
    linked = Pipeline("a", (b, c), frozenset({0, 1}))
    star = stems(None, None)
    truth = [(frozenset(), 0, 200, 320.0, 580.0)], [(frozenset(), 1, 200, 200.0, 420.0)]
    for pipeline, order in ((star, (1, 0)), (linked, (0, 1))):
        policy = AGreedy(pipeline)
        told(policy, *truth)
        assert policy.order == order


def test_scouts_turn_back_at_their_first_stem_where_another_lets_far_less_through() -> None:
    engine = BlockEngine(bind(TEXT, dict.fromkeys("abc", KEYED)), policy="agreedy")
    engine.push("b", keyed([0] * 2000, [k for k in range(100) for _ in range(20)]))
    engine.push("c", keyed([0] * 5, range(5)))
    policy = policy_of(engine, "a")
    journeys: list[Journey] = []
    observe = policy.observe

    def watch(visits: Visits) -> None:
        journeys.extend(visits.journeys)
        observe(visits)

    policy.observe = watch  # type: ignore[method-assign]
    keys = np.random.default_rng(8).integers(0, 100, 1000)
    results = engine.push("a", keyed([1] * 1000, keys))
    assert results.num_rows == 20 * int((keys < 5).sum())
    begun, scouts, rest = journeys
    assert (begun.recalled, begun.rows < 200) == (True, True), (
        "nothing was known, and it took more than tuples may then"
    )
    assert (scouts.recalled, scouts.rows, [v.rows_in > 0 for v in scouts.visits]) == (True, 0, [True, False])
    assert (rest.recalled, rest.rows) == (False, 1000 - begun.rows)
    assert rest.ruster.route.named(policy.pipeline.names) == "c → b"


def test_tuples_are_called_back_seldom_where_no_order_is_better() -> None:
    """Work goes up and down fivefold and more, for every order alike: calling tuples back finds nothing."""
    engine = BlockEngine(bind(TEXT, dict.fromkeys("abc", KEYED)), policy="agreedy")
    often = [k for k in range(100) for _ in range(10)]
    for name in "bc":
        engine.push(name, keyed([0] * 1000, often))
    policy = policy_of(engine, "a")
    recalled = []
    observe = policy.observe

    def watch(visits: Visits) -> None:
        recalled.append(any(j.recalled for j in visits.journeys))
        observe(visits)

    policy.observe = watch  # type: ignore[method-assign]
    random = np.random.default_rng(9)
    for t in range(1, 101):
        known = 100 if t // 2 % 2 else 500
        engine.push("a", keyed([t] * 2000, random.integers(0, known, 2000)))
    assert 1 <= sum(recalled) <= 6, "there were 25 changes"


def test_where_orders_are_alike_the_written_one_comes_back() -> None:
    """At first only c is empty, so it goes first; later b and c match as often as each other."""
    engine = BlockEngine(bind(TEXT, dict.fromkeys("abc", KEYED)), policy="auto")
    random = np.random.default_rng(10)
    engine.push("b", keyed([0] * 1000, random.integers(0, 1000, 1000)))
    policy = policy_of(engine, "a")
    for t in range(1, 5):
        engine.push("a", keyed([t] * 2000, random.integers(0, 1000, 2000)))
    assert policy.plan.route.named(policy.pipeline.names) == "c → b"
    engine.push("c", keyed([4] * 1000, random.integers(0, 1000, 1000)))
    for t in range(5, 200):
        engine.push("a", keyed([t] * 2000, random.integers(0, 1000, 2000)))
    assert policy.order == policy.pipeline.written.operators
    assert [str(e.why) for e in engine.events()][-1] == "no other order saves more than one more index costs to keep"


def test_what_is_believed_of_the_written_order_does_not_grow_old() -> None:
    """It was once told that c behind b takes very much. That is no longer so, but no tuple goes that way to find out."""
    text = "SELECT a.ts FROM a, b, c, d WHERE a.k = b.k AND a.k = c.k AND a.k = d.k WINDOW 1000 SECONDS"
    engine = BlockEngine(bind(text, dict.fromkeys("abcd", KEYED)), policy="agreedy")
    random = np.random.default_rng(13)
    for name in "bcd":
        engine.push(name, keyed([0] * 2000, random.integers(0, 2000, 2000)))
    policy = policy_of(engine, "a")
    b, c, d = range(3)
    one = [
        (frozenset(), b, 200, 200.0, 400.0),
        (frozenset(), c, 200, 200.0, 400.0),
        (frozenset(), d, 200, 200.0, 400.0),
    ]
    told(policy, [(frozenset({b}), c, 200, 10_000.0, 10_200.0)], [*one, (frozenset({c}), b, 200, 200.0, 400.0)])
    assert policy.order != policy.pipeline.written.operators
    for t in range(1, 200):
        engine.push("a", keyed([t] * 2000, random.integers(0, 2000, 2000)))
    assert policy.order == policy.pipeline.written.operators


def test_what_is_settled_is_passed_over_until_work_creeps_up() -> None:
    """Each batch matches a little more than the one before: no batch is a surprise, all together are."""
    engine = BlockEngine(bind(TEXT, dict.fromkeys("abc", KEYED)), policy="agreedy")
    random = np.random.default_rng(11)
    often = [k for k in range(100) for _ in range(10)]
    for name in "bc":
        engine.push(name, keyed([0] * 1000, often))
    policy = policy_of(engine, "a")
    learn, learned = policy.learn_from, []

    def watch(*seen: Sequence[Seen]) -> bool:
        learned.append(policy.scouting.pace.looking)
        return learn(*seen)

    policy.learn_from = watch  # type: ignore[method-assign]
    for t in range(1, 101):
        engine.push("a", keyed([t] * 2000, random.integers(0, 1000, 2000)))
    steady = learned[-len(learned) // 2 :]
    assert len(learned) < 50, "most of a hundred batches were like those before"
    assert sum(steady) <= 4
    rounds = policy.scouting.pace.rounds
    for t in range(101, 109):
        engine.push("a", keyed([t] * 2000, random.integers(0, 1000 * 0.8 ** (t - 100), 2000)))
    assert policy.scouting.pace.rounds > rounds, "scouts look again"


def test_a_policy_with_nothing_to_ask_is_told_of_several_batches_at_once() -> None:
    """Nothing is lost on the way: a freeze and a surprise tell at once, a snapshot tells nothing."""
    engine = BlockEngine(bind(TEXT, dict.fromkeys("abc", KEYED)), policy="auto")
    random = np.random.default_rng(12)
    for name in "bc":
        engine.push(name, keyed([0] * 2000, random.integers(0, 2000, 2000)))
    dispatch, asked, told = engine.stages[0].dispatch, [0], list[Visits]()
    assert dispatch is not None
    policy = dispatch.policy
    route, observe = policy.route, policy.observe

    def count(batch: Batch) -> list[Ruster]:
        asked[0] += 1
        return route(batch)

    def watch(visits: Visits) -> None:
        told.append(visits)
        observe(visits)

    policy.route, policy.observe = count, watch  # type: ignore[method-assign]
    for t in range(1, 201):
        engine.push("a", keyed([t] * 1000, random.integers(0, 2000, 1000)))
    assert asked[0] < 80
    assert max(len(v.journeys) for v in told) == 12
    engine.push("a", keyed([200] * 1000, random.integers(0, 2000, 1000)))
    untold = sum(v.rows for v in dispatch.untold)
    assert untold
    engine.snapshot()
    assert untold == sum(v.rows for v in dispatch.untold)
    assert policy.tuples == sum(v.rows for v in told) == 201_000 - untold  # type: ignore[attr-defined]
    while not dispatch.rest:
        engine.push("a", keyed([201] * 1000, random.integers(0, 2000, 1000)))
    before = len(told)
    engine.push("a", keyed([202] * 1000, random.integers(0, 2, 1000)))
    engine.push("b", keyed([203] * 1000, random.integers(0, 2, 1000)))
    engine.push("a", keyed([204] * 1000, random.integers(0, 2, 1000)))
    assert any(j.recalled for v in told[before:] for j in v.journeys)
    engine.freeze()
    assert not dispatch.untold


@pytest.mark.parametrize("policy", ["auto", "agreedy"])
def test_where_there_is_but_one_order_the_policy_is_asked_once(policy: str) -> None:
    engine = BlockEngine(
        bind("SELECT a.ts FROM a, b WHERE a.k = b.k WINDOW 1 SECOND", dict.fromkeys("ab", KEYED)), policy=policy
    )
    chooser, asked = engine.stages[0].policy, [0]
    assert chooser is not None
    route = chooser.route

    def count(batch: Batch) -> list[Ruster]:
        asked[0] += 1
        return route(batch)

    chooser.route = count  # type: ignore[method-assign]
    engine.push("b", keyed([0] * 10, range(10)))
    assert sum(engine.push("a", keyed([0] * 20, range(20))).num_rows for _ in range(40)) == 400
    assert asked[0] == 1


def test_scouts_pay_for_the_indexes_that_only_they_need() -> None:
    """c comes first on the way, so b is looked into by scouts alone: an index there is not worth it, looking through is."""
    engine = BlockEngine(bind(TEXT, dict.fromkeys("abc", KEYED)), policy="agreedy")
    many = [k for k in range(200) for _ in range(8)]
    engine.push("b", keyed([0] * 1600, many))
    policy = policy_of(engine, "a")
    random = np.random.default_rng(12)
    for _ in range(4):
        engine.push("a", keyed([1] * 1000, random.integers(0, 200, 1000)))
    assert policy.plan.route.named(policy.pipeline.names) == "c → b"
    spent, entries = policy.ledger.spent, engine.stats()["inputs"]["b"]["entries"]
    engine.push("b", keyed([2] * 1600, many))
    sending = engine.flow.sendings[0]
    assert sending is not None
    pace = policy.scouting.pace
    pace.every = sending.dispatch.rest = 0  # seldom scouts may take the written order, resting policies are told later
    pace.looking = True
    sending.once(engine.stages[0].arrive(arrived(1000, random))[0], [], 0)
    assert policy.ledger.spent - spent >= policy.scouting.trip + UNIT * 3200 / 8
    assert engine.stats()["inputs"]["b"]["entries"] == entries


def arrived(rows: int, random: np.random.Generator) -> Piece:
    """Rows of a, with their times and their last moments."""
    table = keyed([3] * rows, random.integers(0, 200, rows)).combine_chunks().to_batches()[0]
    return Piece(table, np.full(rows, 3), {0: np.full(rows, 10**6)})


def test_what_was_learned_survives_a_snapshot() -> None:
    random = np.random.default_rng(8)
    policy = taught(stems(None, None, None), independent(random, 3))
    again = AGreedy(policy.pipeline)
    again.restore(policy.snapshot())
    assert again.order == policy.order
    assert again.snapshot() == policy.snapshot()
