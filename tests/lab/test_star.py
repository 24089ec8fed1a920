"""Stream-Star has the pass rates it says, routing calls are exact, and the mesh lab's searches are priced alike."""

from __future__ import annotations

from functools import partial
from itertools import permutations

import numpy as np
import pytest

from thalweg.engine.engine import Engine
from thalweg.lab import catalogue, cbr, lookups, star, tenstreams
from thalweg.lab.mesh import joins
from thalweg.lab.mesh.streams import MR, QM, SP, attributes, stream
from thalweg.lab.simulate import order_work
from thalweg.plan import Operator, Pipeline


def test_rates_and_aggregate():
    rates = star.skewed(6, 0.2)
    assert rates[0, 0] == 0.2
    assert np.prod(rates, axis=1) == pytest.approx([0.05] * 6)
    random = np.random.default_rng(1)
    drawn = star.draw(rates, 60_000, random)
    for c in range(6):
        assert drawn.bits[drawn.label == c].mean(axis=0) == pytest.approx(rates[c], abs=0.02)
    assert np.prod(star.random_rates(4, 6, random, 0.15), axis=1) == pytest.approx([0.15] * 4)
    assert len(drawn.columns) == 9


def test_knowing_is_the_best_order_of_each_class():
    drawn = star.draw(star.skewed(3, 0.1), 3000, np.random.default_rng(2))
    orders = [(c, *(o for o in range(3) if o != c)) for c in range(3)]
    plain = sum(order_work(drawn.bits[drawn.label == c], orders[c], [1.0] * 3) for c in range(3))
    assert star.knows(drawn) <= plain
    assert star.knows(drawn) == pytest.approx(plain, rel=0.02)


def test_tables_pass_what_the_bits_say_and_knowing_looks_up_as_often():
    random = np.random.default_rng(6)
    drawn = star.draw(star.skewed(4, 0.2), 4000, random)
    stream, tables = lookups.tables(drawn, random)
    assert [t.num_rows for t in tables.values()] == [lookups.SIZE] * 4
    for i, table in enumerate(tables.values()):
        there = np.isin(stream[f"fk_d{i + 1}"].to_numpy(), table["pk"].to_numpy())
        assert (there == drawn.bits[:, i]).all()
    engine = Engine(lookups.query(stream, tables), policy=lookups.knowing(drawn), tables=tables)
    found = engine.push("s", stream)
    assert sorted(found["seq"].to_pylist()) == np.flatnonzero(drawn.bits.all(axis=1)).tolist()
    assert engine.stats()["inputs"]["s"]["buckets"] == star.knows(drawn)


@pytest.mark.parametrize("policy", ["lottery", "cbr"])
def test_every_policy_finds_the_rows_that_pass_all(policy):
    random = np.random.default_rng(7)
    drawn = star.draw(star.skewed(2, 0.05), 3000, random)
    work, took, found = lookups.looked_up(policy, *lookups.tables(drawn, random), 7)
    assert found == drawn.bits.all(axis=1).sum()
    assert work > star.knows(drawn)
    assert took > 0


def test_the_breakdown_counts_every_call_once():
    drawn = star.draw(star.skewed(4, 0.05), 30_000, np.random.default_rng(3))
    told = star.breakdown(drawn, 3)
    assert sum(told[k] for k in ("right", "wrong", "none", "profiling")) == pytest.approx(100)
    assert told["calls"] == star.calls_of("cbr", drawn, 3)
    assert told["right"] > 20


def test_the_mesh_lab_draws_parts_with_orders_of_their_own():
    bits, columns = stream("poisson", 20_000, np.random.default_rng(4))
    part = columns["a0"] == 0
    assert part.mean() == pytest.approx(np.exp(-1), abs=0.02)
    assert abs(bits[part].mean(axis=0) - bits[~part].mean(axis=0)).max() > 0.2
    flat, _ = stream("uniform", 20_000, np.random.default_rng(4))
    assert sorted(flat.mean(axis=0).round(1)) == pytest.approx([0.0, 0.4, 0.7, 0.8, 0.9, 1.0], abs=0.1)


def test_the_mesh_lab_writes_sp_in_the_best_single_order():
    rows = joins.looked_up("uniform", 6000, 4)
    work = {r["policy"]: r["work"] for r in rows}
    assert list(work) == [SP, MR, QM]
    assert work[SP] < min(work[MR], work[QM])


def test_ten_streams_meet_as_often_as_they_say_and_keys_tell_nothing():
    random = np.random.default_rng(8)
    streams = tenstreams.draw(partial(attributes, "poisson"), 20_000, random)
    assert streams.share == pytest.approx([np.exp(-1), (1 - np.exp(-1)) * np.exp(-1), (1 - np.exp(-1)) ** 2], abs=0.01)
    s, other = (streams.data[n]["k"].to_numpy() for n in ("s3", "s7"))
    known = np.isin(s, np.concatenate([t["k"].to_numpy() for n, t in streams.data.items() if n != "s3"]))
    window = 20_000 / tenstreams.WINDOW
    for p in range(3):
        mine = s[known & (streams.part["s3"] == p)]
        met = np.array([(other == k).sum() for k in mine[:400]]).mean() / window
        assert met == pytest.approx(streams.fanouts[p, 7], abs=0.08)
        assert np.corrcoef(s, streams.part["s3"] == p)[0, 1] == pytest.approx(0.0, abs=0.05)


def test_ten_streams_know_the_best_orders():
    streams = tenstreams.Streams(
        {f"s{i}": None for i in range(4)}, {}, np.array([[1.0, 0.1, 0.8, 1.5], [1.0, 0.9, 0.2, 1.5]]), np.array([0.3, 0.7])
    )  # fmt: skip
    pipeline = Pipeline("s0", tuple(Operator(f"s{i}", "stem") for i in (3, 2, 1)))

    def work(order, parts):
        total = 0.0
        for p in parts:
            rows = streams.share[p]
            for op in order:
                fanout = streams.fanouts[p, 3 - op]
                total += rows * (1 + fanout)
                rows *= fanout
        return total

    for parts in ([0], [1], [0, 1]):
        best = min(permutations(range(3)), key=lambda order: work(order, parts))
        assert streams.best(pipeline, parts).operators == best


def test_every_contender_joins_the_same_ten_streams():
    rows = joins.joined("poisson", 3000, 9)
    work = {r["policy"]: r["work"] for r in rows}
    assert list(work) == [SP, MR, QM, joins.KNOWS]
    assert work[joins.KNOWS] < work[SP] < min(work[MR], work[QM])


@pytest.mark.parametrize("group", ["cbr", "mesh"])
def test_the_groups_are_in_the_catalogue(group):
    experiments = catalogue.experiments(group)
    assert [e.name for e in catalogue.find(group)] == [e.name for e in experiments]
    for e in experiments:
        assert e.claims
        assert e.trials(True, 7)
        for figure in e.figures:
            assert catalogue.find(figure) == [e]


def test_one_operator_adds_no_call():
    assert {r["calls"] for r in cbr.one_operator(5000, 1)} == {1.0}
