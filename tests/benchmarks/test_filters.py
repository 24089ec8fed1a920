"""The benchmark measures what it says: generators give the known answers, oracles are exact, every run is checked."""

from __future__ import annotations

import itertools
import json
from hashlib import md5

import numpy as np
import pytest
from benchmarks.filters import classes, drifting, duck, engine, following, hashed, regret, report, sections, steady
from benchmarks.filters.hashed import Hashed
from benchmarks.filters.workload import Workload, in_second_half, oracles, settled_rows
from rich.progress import Progress

from thalweg.lab.simulate import order_work

TINY = sections.Size(
    fn=4_000, f=2_000, groups=4_000, batches=20, still=4_000, still_clock=2_000, regret=20_000,
    on_spark=4_000, spark_also=("fn",), rates=4_000, repeats=1,
    long=4_000, nsl=2_000, nsl_rounds=1,
)  # fmt: skip


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory, monkeypatch):
    """Tables and verdicts of the tests stay out of the user's cache; the tests share them, as verdicts take seconds."""
    folder = tmp_path_factory.getbasetemp() / "filters-benchmark"
    from benchmarks.filters import onspark, workload

    for module in (hashed, workload, onspark):
        monkeypatch.setattr(module, "CACHE", folder)


# Generators


@pytest.mark.parametrize(("make", "answer"), [(classes.fn, (8045, 1612906538)), (classes.f, (4050, 409693578))])
def test_known_answers_at_full_size(make, answer):
    workload = make()
    assert workload.answer == answer == workload.known


def test_exact_work_of_fn():
    """The figures the workload was published with; its class oracle used expected rates, ours true ones."""
    best = oracles(classes.fn())
    assert best.best_static == pytest.approx(40.51995)
    assert best.best_phase == pytest.approx(35.293025)
    assert best.worst_static == pytest.approx(90.265825)
    assert (best.static_order, best.worst_order) == ((0, 1, 2, 3, 4, 5), (5, 2, 4, 1, 3, 0))
    assert 23.9 < best.best_class_phase <= 23.96875


def test_values_have_the_verdicts_of_the_bits():
    random = np.random.default_rng(1)
    for predicate in (Hashed("nested", 2), Hashed("repeated", 3)):
        bits = random.random(500) < 0.3
        values = predicate.values(bits, random.random(500), random.permutation(hashed.COUNT))
        judge = predicate.function()
        assert [judge(int(v)) for v in values] == bits.tolist()
        assert len(set(values.tolist())) > 400


def test_nested_and_repeated_md5():
    assert Hashed("nested", 3).function()(70_001) is (
        md5(md5(md5(b"70001").hexdigest().encode()).hexdigest().encode()).hexdigest() < "8"
    )
    assert Hashed("repeated", 3).function()(70_001) is (md5(b"700017000170001").hexdigest() < "8")


def test_a_head_is_the_beginning_of_the_whole():
    whole = drifting.groups(6_000)
    head = whole.head(2_500)
    assert head.table().equals(whole.table().slice(0, 2_500))
    assert np.array_equal(head.bits, whole.bits[:2_500])


def test_groups_agree_within_and_not_between():
    bits = drifting.groups(120_000).bits
    agree = np.array([[(bits[:, i] == bits[:, j]).mean() for j in range(6)] for i in range(6)])
    assert all(agree[i, j] > 0.9 for i, j in drifting.GROUPS)
    assert agree[0, 2] < 0.7
    assert agree[0, 4] < 0.7


def test_slow_drift_moves_by_a_thousandth_and_turns_every_order_round():
    rates = drifting.slow_rates(1000)
    assert np.abs(np.diff(rates, axis=0)).max() == pytest.approx(0.001)
    assert rates.min() >= 0.05 - 1e-9
    assert rates.max() <= 0.95 + 1e-9
    earlier, later = rates[0], rates[850]
    assert (np.argsort(earlier) != np.argsort(later)).any()
    bits = drifting.slow(100).bits.reshape(100, 1000, 6).mean(axis=1)
    assert np.abs(bits - drifting.slow_rates(100)).max() < 0.08


# Oracles


def small(rows: int = 900, phase: int = 400) -> Workload:
    made = classes.drifting_classes(
        "small", "small", tuple(Hashed("nested", k) for k in (1, 2, 3, 1, 2, 3)), rows, phase, seed=5
    )
    return made


def test_oracles_against_all_orders():
    workload = small()
    best = oracles(workload)
    orders = list(itertools.permutations(range(6)))

    def least(bits):
        return min(order_work(bits, order, workload.weights) for order in orders)

    phases = [slice(0, 400), slice(400, 800), slice(800, 900)]
    assert best.best_static * 900 == pytest.approx(least(workload.bits))
    assert best.best_phase * 900 == pytest.approx(sum(least(workload.bits[p]) for p in phases))
    assert best.best_class_phase * 900 == pytest.approx(
        sum(least(workload.bits[p][workload.classes[p] == c]) for p in phases for c in range(4))
    )
    worst = max(order_work(workload.bits, order, workload.weights) for order in orders)
    assert best.worst_static * 900 == pytest.approx(worst)


def test_second_halves():
    workload = classes.drifting_classes("h", "h", (Hashed("nested", 1),) * 6, 10_000, 4_000, seed=1)
    assert in_second_half(workload).nonzero()[0].tolist() == [2, 3, 6, 7]
    assert settled_rows(workload) == 4_000
    best = oracles(workload)
    halves = [order_work(workload.bits[a : a + 2000], best.static_order, workload.weights) for a in (2000, 6000)]
    assert best.settled_phase <= sum(halves) / 4_000


# Level one


def test_a_run_counts_what_the_exact_work_says():
    workload = small()
    run = engine.run(workload, engine.chunks(workload.table()), "written", written=[3, 1, 0, 2, 5, 4])
    assert run.work.sum() == pytest.approx(order_work(workload.bits, [3, 1, 0, 2, 5, 4], workload.weights))
    assert run.evaluations == order_work(workload.bits, [3, 1, 0, 2, 5, 4], [1.0] * 6)
    assert run.extra.sum() == 0


@pytest.mark.parametrize("policy", engine.POLICIES)
def test_every_policy_gives_the_rows(policy):
    workload = small()
    run = engine.run(workload, engine.chunks(workload.table()), policy)
    assert run.rows == 900
    assert run.evaluations >= 900


def test_a_wrong_row_is_found():
    workload = small()
    keep = workload.passing.copy()
    engine.check(workload, keep, "nobody")
    keep[17] = ~keep[17]
    with pytest.raises(engine.WrongAnswer, match="row 17"):
        engine.check(workload, keep, "somebody")


def test_duckdb_gives_the_rows_and_a_plausible_price():
    workload = classes.fn().head(20_000)
    best = oracles(workload)
    runs, price = duck.race(workload, {"worst": best.worst_order, "best": best.static_order}, repeats=1)
    assert [r.written for r in runs] == ["worst", "best"]
    assert 1e-9 < price < 1e-4


def test_duckdb_refuses_what_may_throw():
    with pytest.raises(ValueError, match="nested"):
        duck.condition(Hashed("repeated", 2), "x1")


def test_a_wrong_answer_of_duckdb_is_found(monkeypatch):
    workload = small()
    workload.__dict__["answer"] = (1, 1)
    with pytest.raises(engine.WrongAnswer):
        duck.race(workload, {"best": range(6)}, repeats=1)


def test_regret_pairs_the_same_batches():
    workload = steady.equal(40_000)
    found = regret.compare(
        workload.table(), regret.judges(workload), piece=1000, pieces=10, expected=workload.answer[0]
    )
    by = {r.who: r for r in found}
    assert {len(r.ratios) for r in found} == {4}
    assert np.allclose(by["written"].ratios + by["written again"].ratios, 2.0)
    assert by["written"].calls_per_row == by["written again"].calls_per_row
    assert by["auto"].calls_per_row >= by["written"].calls_per_row


def test_regret_checks_the_rows():
    workload = steady.one(20_000)
    with pytest.raises(engine.WrongAnswer):
        regret.compare(
            workload.table(), regret.judges(workload), piece=1000, pieces=10, expected=workload.answer[0] + 1
        )


def test_changes_are_counted_per_million_after_settling():
    assert following.count([10, 60_000, 70_000], 1_050_000) == following.Flapping(1, 2.0)
    assert following.count([], 100_000) == following.Flapping(0, 0.0)


# The report


def test_sections_have_all_columns_and_survive_json(tmp_path):
    progress = Progress(disable=True)
    made = [sections.engine_section(name, TINY, progress) for name in ("fn", "f", "groups")]
    made += [
        section(TINY, progress) for section in (sections.nothing_section, sections.slow_section, sections.still_section)
    ]
    report.keep(made, report.circumstances("a test", 0.0), tmp_path)
    kept = {s["name"]: s for s in json.loads((tmp_path / "results.json").read_text())["sections"]}
    fn = [row["column"] for row in kept["fn"]["tables"][0]["rows"]]
    for column in (
        "Spark's chain", *engine.POLICIES, "best static (exact)", "best per phase (exact)",
        "best per class and phase (exact)", "DuckDB, worst order written", "DuckDB, best order written",
    ):  # fmt: skip
        assert fn.count(column) == 1, column
    measures = {"evaluations_per_row", "work_per_row", "of_best_phase", "cpu_seconds", "rows_per_second"}
    for row in kept["fn"]["tables"][0]["rows"]:
        if row["column"] in engine.POLICIES:
            assert all(row[m] > 0 for m in measures)
    cases = {(row["case"], row["kind"]) for t in kept["nothing"]["tables"] for row in t["rows"]}
    assert cases == {("one", "row"), ("one", "cheap"), ("equal", "row"), ("equal", "cheap")}
    assert {"agreedy", "auto"} <= {row["column"] for row in kept["slow"]["tables"][0]["rows"]}
    assert "equal" in kept["stationary"]["tables"][0]["rows"][0]
    text = (tmp_path / "results.md").read_text()
    assert "| agreedy |" in text
    assert "/tmp" not in text
    assert str(tmp_path) not in text


def test_targets_can_be_missed():
    assert report.Target("a", 1.05, 1.04).met
    assert not report.Target("a", 1.05, 1.06).met
    assert not report.Target("a", 4.0, 3.9, at_most=False).met


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_on_spark_calls_are_counted_and_rows_checked(monkeypatch):
    from benchmarks.filters import onspark

    monkeypatch.setattr(onspark, "COUNTED_ROWS", 2_000)
    workload = steady.rates(4_000)
    contestants = ("Spark: udf chain", "Spark: pandas_udf chain", "agreedy")
    with onspark.session() as spark:
        counted = {who: onspark.counted(spark, workload, who, f"test-{k}") for k, who in enumerate(contestants)}
        assert counted["Spark: udf chain"] == counted["Spark: pandas_udf chain"] == (6.0, None)
        accumulated, reported = counted["agreedy"]
        assert accumulated < 6.0
        assert reported == accumulated * 2_000
        chains = dict.fromkeys(onspark.CHAINS, 6.0)
        for how in ("batch", "streaming"):
            table = sections.spark_table(spark, workload, how, 1, Progress(disable=True), chains, contestants[1:])
            by = {row["column"]: row for row in table.rows}
            assert by["agreedy"]["fewer_calls"] > 1.5
            assert all(by[who][c.key] is not None for who in by for c in table.columns if c.key != "order_changes")
        workload.passing[0] = ~workload.passing[0]
        with pytest.raises(engine.WrongAnswer):
            onspark.batch(spark, workload, "written", "test-wrong")


@pytest.mark.long
def test_the_quick_run_writes_everything(tmp_path):
    import typer
    from benchmarks.filters.__main__ import main
    from typer.testing import CliRunner

    app = typer.Typer()
    app.command()(main)
    result = CliRunner().invoke(app, ["--quick", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    names = [s["name"] for s in json.loads((tmp_path / "results.json").read_text())["sections"]]
    assert names == ["fn", "f", "long", "groups", "nslkdd", "nothing", "slow", "stationary", "spark"]
    assert {p.name for p in tmp_path.glob("*.png")} == {"fn.png", "f.png", "groups.png", "slow.png"}


# Classes


def test_the_class_oracle_of_the_second_halves_is_exact():
    workload = classes.fn().head(80_000)
    best = oracles(workload)
    late = np.arange(80_000) % workload.phase >= workload.phase // 2
    total = 0.0
    for phase in range(2):
        here = np.arange(80_000) // workload.phase == phase
        for label in range(classes.CLASSES):
            own = here & (workload.classes == label)
            orders = itertools.permutations(range(6))
            order = min(orders, key=lambda o, own=own: order_work(workload.bits[own][:2000], o, workload.weights))
            total += order_work(workload.bits[own & late], order, workload.weights)
    assert best.settled_class == pytest.approx(total / late.sum(), rel=0.02)
    assert best.settled_class < best.settled_phase


def test_long_phases_and_real_connections_are_sections(tmp_path, monkeypatch):
    with Progress(disable=True) as progress:
        section = sections.long_section(TINY, progress)
        assert [t.limit for t in section.targets] == [1.2, 1.2]
        monkeypatch.delenv("THALWEG_NSL_KDD", raising=False)
        monkeypatch.chdir(tmp_path)
        left_out = sections.nsl_section(TINY, progress)
        assert not left_out.tables
        assert "is missing" in left_out.notes[0]
        lines = [
            f"0,{'tcp' if i % 3 else 'udp'},{'http' if i % 2 else 'domain_u'},SF,"
            + ",".join(str((i * k) % 97 / 10) for k in range(4, 41))
            + ",normal,20"
            for i in range(2000)
        ]  # fmt: skip
        (tmp_path / "connections.txt").write_text("\n".join(lines))
        monkeypatch.setenv("THALWEG_NSL_KDD", str(tmp_path / "connections.txt"))
        found = sections.nsl_section(TINY, progress)
    rows = found.tables[0].rows
    assert [r["column"] for r in rows] == list(sections.NSL_POLICIES)
    assert rows[0]["of_written"] == 1
    json.dumps(found.record())
