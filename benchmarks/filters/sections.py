"""The sections of the report: what runs, at which size, and what the tables show."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from time import thread_time
from typing import Any

import numpy as np
from pyspark.sql import SparkSession
from rich.progress import Progress

from benchmarks.filters import classes, drifting, duck, engine, following, nslkdd, onspark, regret, steady
from benchmarks.filters.report import Column, Section, Table, Target
from benchmarks.filters.workload import CHUNK, Oracles, Workload, oracles
from thalweg.lab.simulate import Simulated

CHAIN = "Spark's chain"
ON_SPARK = (*onspark.CHAINS, "written", "agreedy", "auto")


@dataclass(frozen=True)
class Size:
    """The sizes of a run."""

    fn: int = 400_000
    f: int = 200_000
    groups: int = 240_000
    batches: int = 1000
    still: int = 1_000_000
    still_clock: int = 400_000
    regret: int = 1_000_000
    row_pieces: dict[str, int] = field(default_factory=lambda: {"piece": 1000, "pieces": 20})
    arrow_pieces: dict[str, int] = field(default_factory=lambda: {"piece": 10_000, "pieces": 10, "rounds": 5})
    on_spark: int = 120_000
    spark_also: tuple[str, ...] = ("fn", "f", "groups")
    rates: int = 1_200_000
    repeats: int = 3
    long: int = 640_000
    nsl: int | None = None
    nsl_rounds: int = 4


FULL = Size()
QUICK = Size(
    fn=44_000, f=20_000, groups=30_000, batches=120, still=60_000, still_clock=20_000, regret=60_000,
    on_spark=8_000, spark_also=("fn",), rates=24_000, repeats=1, long=200_000, nsl=8_000, nsl_rounds=1,
)  # fmt: skip

WORKLOADS: dict[str, Callable[[Size], Workload]] = {
    "fn": lambda size: classes.fn().head(size.fn),
    "f": lambda size: classes.f().head(size.f),
    "groups": lambda size: drifting.groups(size.groups),
}


# Level one


def engine_section(name: str, size: Size, progress: Progress) -> Section:
    """Run a workload through every policy, and compare with the orders that nobody can know in advance."""
    workload = WORKLOADS[name](size)
    best = oracles(workload)
    section = Section(name, workload.title)
    pieces = engine.chunks(workload.table())
    contests: list[tuple[str, str, tuple[int, ...] | None]] = [(p, p, None) for p in engine.POLICIES]
    if name == "fn":
        contests += [(f"{p}, worst order written", p, best.worst_order) for p in ("written", "agreedy", "auto")]
    task = progress.add_task(f"{name}: engine", total=len(contests) * len(workload))
    runs: dict[str, engine.EngineRun] = {}
    for k, (label, policy, written) in enumerate(contests):
        progress.update(task, description=f"{name}: {label}", completed=k * len(workload))
        runs[label] = engine.run(
            workload, pieces, policy, written=written, advance=lambda rows: progress.advance(task, rows)
        )
    rows = [_engine_row(label, run, workload, best) for label, run in runs.items()]
    rows = [_chain_row(workload, best), *rows, *_oracle_rows(workload, best)]
    if name == "fn":
        progress.update(task, description="fn: DuckDB")
        rows += _duck_rows(workload, best, section)
    progress.remove_task(task)
    section.tables.append(Table("The engine alone, chunks of 1,000 rows, one core", _engine_columns(workload), rows))
    section.series = {
        "unit": workload.unit, "phase": workload.phase, "best": best.phase_by_chunk,
        "work": {label: run.work for label, run in runs.items()}, "borders": workload.phases_called == "phase",
    }  # fmt: skip
    n, chk = workload.answer
    against = ", as known in advance" if workload.known == workload.answer else ""
    section.notes.append(f"Every run gave the expected rows: {n:,} out of {len(workload):,}, sum of ts {chk}{against}.")
    section.notes.append(
        f"Best per {workload.phases_called}: the best fixed order of each {workload.phase:,} rows. Settled: second "
        f"halves of the {workload.phases_called}s only. Work and calls include profiling. CPU: this process; rows/s: "
        "wall clock."
    )
    if name == "fn":
        run = runs["agreedy"]
        whole, settled = run.work_per_row / best.best_phase, _settled(run, workload, best)
        section.targets.append(Target("FN: agreedy, work over the whole run against best per phase", 1.12, whole))
        if settled is not None:
            section.targets.append(Target("FN: agreedy, settled, against best per phase", 1.05, settled))
    if best.best_class_phase is not None:
        own = runs["auto"]
        section.targets.append(
            Target(
                f"{name.upper()}: auto, work over the whole run against best per class and phase", 1.35,
                own.work_per_row / best.best_class_phase,
            )
        )  # fmt: skip
        if best.settled_class:
            settled = own.settled_per_row(workload) / best.settled_class
            section.targets.append(
                Target(f"{name.upper()}: auto, settled, against best per class and phase", 1.15, settled)
            )
    return section


def long_section(size: Size, progress: Progress) -> Section:
    """Phases four times as long, which leave more time to use what was learned."""
    section = Section("long", "FN and F with phases four times as long")
    policies = ("written", "agreedy", "cbr", "mesh", "auto")
    for workload in (classes.fn_long(size.long), classes.f_long(size.long)):
        best = oracles(workload)
        task = progress.add_task(f"long phases: {workload.name}", total=len(policies))
        rows = []
        for policy in policies:
            done = following.follow(workload, policy)
            rows.append(_followed_row(policy, done, workload, best))
            progress.advance(task)
        progress.remove_task(task)
        shown = [
            c
            for c in _engine_columns(workload)
            if c.key not in ("cpu_seconds", "rows_per_second", "settled", "settled_class", "of_chain_work")
        ]
        section.tables.append(
            Table(f"{workload.title}, recorded costs, exact work", shown, [*rows, *_oracle_rows(workload, best)])
        )
        auto = next(r for r in rows if r["column"] == "auto")
        section.targets.append(
            Target(
                f"{workload.name}: auto, work over the whole run against best per class and phase",
                1.2,
                auto["of_best_class"],
            )
        )
    return section


NSL_POLICIES = ("written", "agreedy", "cbr", "mesh", "auto")


def nsl_section(size: Size, progress: Progress) -> Section:
    section = Section("nslkdd", "NSL-KDD: real connections, six realistic predicates")
    path = nslkdd.found()
    if path is None:
        section.notes.append(
            f"Left out: {nslkdd.FILE} is missing. Name it in THALWEG_NSL_KDD, or put it into out/data."
        )
        return section
    task = progress.add_task("NSL-KDD", total=1)
    done = nslkdd.run(nslkdd.table(path, size.nsl), NSL_POLICIES, rounds=size.nsl_rounds)
    progress.remove_task(task)
    written = done[0]
    rows = [
        {
            "column": o.policy, "evaluations_per_row": o.calls_per_row, "judged": o.judged, "of_written": o.judged / written.judged,
            "cpu_seconds": o.cpu, "cpu_of_written": o.cpu / written.cpu, "classes": o.classes,
        }
        for o in done
    ]  # fmt: skip
    columns = [
        Column("column", "column"), Column("evaluations_per_row", "calls/row", ".3f"),
        Column("judged", "work, s", ".2f"), Column("of_written", "× written", ".3f"),
        Column("cpu_seconds", "CPU s", ".2f"), Column("cpu_of_written", "× written", ".3f"),
        Column("classes", "classes at the end", "d"),
    ]  # fmt: skip
    section.tables.append(Table(f"{written.rows_out:,} connections pass", columns, rows))
    section.notes.append(
        f"All policies gave the same rows. Work: calls times the mean price of each predicate. The connections are sent "
        f"{size.nsl_rounds} times, one after the other. `auto` saves {1 - rows[-1]['of_written']:.0%} of the written order's work, "
        f"{1 - rows[-1]['cpu_of_written']:.0%} of its CPU."
    )
    return section


def _engine_columns(workload: Workload) -> list[Column]:
    called = workload.phases_called
    return [
        Column("column", "column"),
        Column("evaluations_per_row", "calls/row", ".3f"),
        Column("work_per_row", f"{workload.unit}/row", ".2f"),
        Column("of_best_phase", f"× best per {called}", ".3f"),
        Column("settled", "settled", ".3f"),
        *(
            [Column("of_best_class", "× best per class", ".3f"), Column("settled_class", "settled", ".3f")]
            if workload.classes is not None
            else []
        ),
        Column("profiling", "share of profiling", ".1%"),
        Column("cpu_seconds", "CPU s", ".2f"),
        Column("rows_per_second", "rows/s", ",.0f"),
        Column("of_chain_work", f"{CHAIN} / it", ".2f"),
        Column("order_changes", "order changes", "d"),
    ]


def _engine_row(label: str, run: engine.EngineRun, workload: Workload, best: Oracles) -> dict[str, Any]:
    return {
        "column": label,
        "evaluations_per_row": run.evaluations / run.rows,
        "work_per_row": run.work_per_row,
        "of_best_phase": run.work_per_row / best.best_phase,
        "settled": _settled(run, workload, best),
        "of_best_class": run.work_per_row / best.best_class_phase if best.best_class_phase else None,
        "settled_class": run.settled_per_row(workload) / best.settled_class if best.settled_class else None,
        "profiling": float(run.extra.sum() / run.work.sum()),
        "cpu_seconds": run.cpu,
        "rows_per_second": run.rows / run.wall,
        "of_chain_work": sum(workload.weights) / run.work_per_row,
        "order_changes": run.reorders,
    }


def _settled(run: engine.EngineRun, workload: Workload, best: Oracles) -> float | None:
    """Work in the second halves of phases relative to the best there; None if no phase got that far."""
    return run.settled_per_row(workload) / best.settled_phase if best.settled_phase else None


def _plain_row(
    label: str, calls: float | None, work: float, workload: Workload, best: Oracles, **more: Any
) -> dict[str, Any]:
    return {
        "column": label,
        "evaluations_per_row": calls,
        "work_per_row": work,
        "of_best_phase": work / best.best_phase,
        "of_best_class": work / best.best_class_phase if best.best_class_phase else None,
        "of_chain_work": sum(workload.weights) / work,
    } | more


def _followed_row(policy: str, done: Simulated, workload: Workload, best: Oracles) -> dict[str, Any]:
    return _plain_row(
        policy, float(done.evaluations.sum()) / len(workload), done.work / len(workload), workload, best,
        profiling=float(done.extra.sum()) / done.work, order_changes=done.reorders,
    )  # fmt: skip


def _chain_row(workload: Workload, best: Oracles) -> dict[str, Any]:
    """Every predicate on every row. The table of level two counts that Spark does this."""
    return _plain_row(CHAIN, float(len(workload.predicates)), sum(workload.weights), workload, best)


def _oracle_rows(workload: Workload, best: Oracles) -> Iterable[dict[str, Any]]:
    called = workload.phases_called
    yield _plain_row("worst static (exact)", None, best.worst_static, workload, best)
    yield _plain_row("best static (exact)", best.evaluations["best static"], best.best_static, workload, best)
    yield _plain_row(
        f"best per {called} (exact)", best.evaluations["best per phase"], best.best_phase, workload, best, settled=1.0
    )
    if best.best_class_phase is not None:
        calls = best.evaluations["best per class and phase"]
        yield _plain_row("best per class and phase (exact)", calls, best.best_class_phase, workload, best)


def _duck_rows(workload: Workload, best: Oracles, section: Section) -> list[dict[str, Any]]:
    orders = {"worst": best.worst_order, "best": best.static_order}
    runs, price = duck.race(workload, orders)
    section.notes.append(
        f"DuckDB: one thread, medians of three, its work derived from its CPU time at {price * 1e6:.3f} µs per md5 (native "
        "code; in Python the same costs several times as much, so compare its work, not its seconds)."
    )
    return [
        _plain_row(
            f"DuckDB, {run.written} order written", None, run.work_per_row, workload, best,
            cpu_seconds=run.cpu, rows_per_second=len(workload) / run.wall,
        )
        for run in runs
    ]  # fmt: skip


# Level two

SPARK_COLUMNS = [
    Column("column", "column"),
    Column("evaluations_per_row", "calls/row", ".3f"),
    Column("fewer_calls", "× fewer calls", ".2f"),
    Column("cpu_seconds", "CPU s", ".2f"),
    Column("less_cpu", "× less CPU", ".2f"),
    Column("rows_per_second", "rows/s", ",.0f"),
    Column("faster", "× rows/s", ".2f"),
    Column("spread", "rows/s, least–most"),
    Column("order_changes", "order changes", "d"),
]


def spark_table(
    spark: SparkSession, workload: Workload, how: str, repeats: int, progress: Progress, chain_calls: dict[str, float],
    contestants: Sequence[str] = ON_SPARK,
) -> Table:  # fmt: skip
    """Run the contestants in turn, and take medians of the repeats."""
    contest = onspark.batch if how == "batch" else onspark.streaming
    runs: dict[str, list[onspark.SparkRun]] = {who: [] for who in contestants}
    task = progress.add_task(f"{workload.name}: Spark, {how}", total=repeats * len(contestants))
    for turn in range(repeats):
        for k, who in enumerate(contestants):
            progress.update(task, description=f"{workload.name}: Spark, {how}, {who}")
            runs[who].append(contest(spark, workload, who, f"{workload.name}-{how}-{turn}-{k}"))
            progress.advance(task)
    progress.remove_task(task)
    wall = {who: float(np.median([r.wall for r in done])) for who, done in runs.items()}
    cpu = {who: float(np.median([r.cpu for r in done])) for who, done in runs.items()}
    chain_wall, chain_cpu = (min(took[who] for who in took if who in onspark.CHAINS) for took in (wall, cpu))
    rows = []
    for who, done in runs.items():
        counts = [r.calls for r in done if r.calls is not None]
        calls = float(np.median(counts)) / len(workload) if counts else chain_calls[who]
        rates = sorted(len(workload) / r.wall for r in done)
        rows.append({
            "column": who,
            "evaluations_per_row": calls,
            "fewer_calls": min(chain_calls.values()) / calls,
            "cpu_seconds": cpu[who],
            "less_cpu": chain_cpu / cpu[who],
            "rows_per_second": len(workload) / wall[who],
            "faster": chain_wall / wall[who],
            "spread": f"{rates[0]:,.0f}–{rates[-1]:,.0f}",
            "order_changes": None if done[0].orders is None else int(np.median([r.orders or 0 for r in done])),
        })  # fmt: skip
    shown = f"{len(workload):,} rows, parquet to parquet, × the better of the two chains"
    shown += f", medians of {repeats}" if repeats > 1 else ""
    return Table(f"On Spark, local[2], {how}: {shown}", SPARK_COLUMNS, rows)


def spark_sections(names: list[str], sections: dict[str, Section], size: Size, progress: Progress) -> None:
    """Add the tables of level two to the sections of level one, and add the section `spark`."""
    task = progress.add_task("starting Spark", total=None)
    with onspark.session() as spark:
        small = steady.rates(onspark.COUNTED_ROWS)
        progress.update(task, description="Spark: counting calls")
        counted = {
            who: onspark.counted(spark, small, who, f"counted-{k}")
            for k, who in enumerate((*onspark.CHAINS, "agreedy"))
        }
        chain_calls = {who: counted[who][0] for who in onspark.CHAINS}
        progress.remove_task(task)
        if "spark" in names:
            sections["spark"] = _rates_section(spark, size, progress, chain_calls, counted["agreedy"])
        for name in size.spark_also:
            if name in sections:
                workload = WORKLOADS[name](size).head(size.on_spark)
                sections[name].tables.append(spark_table(spark, workload, "batch", 1, progress, chain_calls))


def _rates_section(
    spark: SparkSession, size: Size, progress: Progress, chain_calls: dict[str, float], own: tuple[float, int | None]
) -> Section:
    workload = steady.rates(size.rates)
    section = Section("spark", workload.title)
    took = _price(workload)
    for how in ("batch", "streaming"):
        table = spark_table(spark, workload, how, size.repeats, progress, chain_calls)
        section.tables.append(table)
        by = {row["column"]: row for row in table.rows}
        for who in ("agreedy", "auto"):
            section.targets += [
                Target(f"Spark {how}: {who}, × fewer calls than Spark's chain", 4.0, by[who]["fewer_calls"], False),
                Target(f"Spark {how}: {who}, × rows/s of Spark's chain", 3.0, by[who]["faster"], False),
            ]
    accumulated, reported = own
    assert reported is not None
    section.notes += [
        f"One call takes {took * 1e6:.1f} µs (best of ten tries in this run). Calls of Spark's chains: counted by an "
        f"accumulator on {onspark.COUNTED_ROWS:,} rows, {' and '.join(f'{c:.3f}' for c in chain_calls.values())} per "
        f"row. On the same rows the accumulator counted {accumulated:.4f} per row in `agreedy`, and its own statistics "
        f"{reported / onspark.COUNTED_ROWS:.4f}.",
        "Seconds of a stream are those of its triggers, two files each. Every run's output is checked row by row.",
    ]
    return section


def _price(workload: Workload) -> float:
    """Seconds of one call of the first predicate, the best of ten tries."""
    judge = workload.predicates[0].function()
    tries = []
    for _ in range(10):
        start = thread_time()
        for x in range(10_000, 12_000):
            judge(x)
        tries.append((thread_time() - start) / 2_000)
    return min(tries)


# Nothing to gain, slow drift, no drift

REGRET_COLUMNS = [
    Column("column", "column"),
    Column("median", "CPU × written, median", ".4f"),
    Column("error", "± (s.e.)", ".4f"),
    Column("quartiles", "quartiles"),
    Column("total", "× written, total", ".4f"),
    Column("pairs", "pairs", "d"),
    Column("cpu_seconds", "CPU s", ".2f"),
    Column("evaluations_per_row", "calls/row", ".3f"),
    Column("order_changes", "order changes", "d"),
]


def nothing_section(size: Size, progress: Progress) -> Section:
    section = Section("nothing", "Nothing to gain: what does watching cost?")
    workloads = (steady.one(size.regret), steady.equal(size.regret))
    for workload in workloads:
        took = _price(workload)
        for kind in ("row", "cheap"):
            rounds = 1 if kind == "row" else size.arrow_pieces["rounds"]
            task = progress.add_task(f"nothing to gain: {workload.name}, {kind}", total=len(workload) * rounds)
            count = len(workload.predicates)
            judged = regret.judges(workload) if kind == "row" else regret.cheap_judges(count)
            found = regret.compare(
                workload.table(), judged, expected=workload.answer[0] if kind == "row" else None,
                advance=lambda n, task=task: progress.advance(task, n),  # type: ignore[misc]
                **(size.row_pieces if kind == "row" else size.arrow_pieces),
            )  # fmt: skip
            progress.remove_task(task)
            price = f"row functions, {took * 1e6:.1f} µs per call" if kind == "row" else "Arrow comparisons"
            rows = [_regret_row(workload.name, kind, r) for r in found]
            section.tables.append(Table(f"{workload.title}: {price}", REGRET_COLUMNS, rows))
            auto = next(r for r in found if r.who == "auto")
            section.targets.append(Target(f"{workload.title}: auto, CPU × written, {price}", 1.03, auto.median))
    section.notes += [
        "CPU against the mean of `written` and `written again` (the same policy twice) on the same rows, in turn: row "
        "functions 1,000 rows at a time, Arrow comparisons 10,000 (Spark's batch); the median of the pairs' ratios. How far "
        "the two `written` are from 1 is noise.",
        "An Arrow comparison takes nanoseconds per row, so any bookkeeping shows, and no order is worth it.",
    ]
    return section


def _regret_row(case: str, kind: str, r: regret.Regret) -> dict[str, Any]:
    low, high = r.quartiles
    return {
        "case": case, "kind": kind, "column": r.who,
        "median": r.median, "error": r.error, "quartiles": f"{low:.3f}–{high:.3f}",
        "total": r.total, "pairs": len(r.ratios),
        "cpu_seconds": r.cpu, "evaluations_per_row": r.calls_per_row, "order_changes": r.orders,
    }  # fmt: skip


def slow_section(size: Size, progress: Progress) -> Section:
    workload = drifting.slow(size.batches)
    best = oracles(workload)
    section = Section("slow", workload.title)
    task = progress.add_task("slow drift", total=len(engine.POLICIES))
    rows, work = [], {}
    for policy in engine.POLICIES:
        progress.update(task, description=f"slow drift: {policy}")
        done = following.follow(workload, policy)
        work[policy] = done.useful + done.extra
        rows.append(_followed_row(policy, done, workload, best))
        progress.advance(task)
    progress.remove_task(task)
    shown = [
        c
        for c in _engine_columns(workload)
        if c.key not in ("cpu_seconds", "rows_per_second", "settled", "of_chain_work")
    ]
    section.tables.append(
        Table(
            f"{size.batches:,} batches of 1,000 rows, recorded costs, exact work",
            shown,
            [*rows, *_oracle_rows(workload, best)],
        )
    )
    section.series = {
        "unit": workload.unit, "phase": workload.phase, "best": best.phase_by_chunk, "work": work, "borders": False,
        "smooth": 10,
    }  # fmt: skip
    by = {row["column"]: row for row in rows}
    section.targets += [
        Target(f"slow drift: {who}, work against the best order of each block", 1.10, by[who]["of_best_phase"])
        for who in ("agreedy", "auto")
    ]
    section.notes.append(
        f"Pass rates go up and down between 5 and 95 % by 0.1 % per batch. Blocks: {workload.phase // CHUNK} batches."
    )
    return section


def still_section(size: Size, progress: Progress) -> Section:
    section = Section("stationary", "Nothing changes: does the order?")
    clocked = steady.equal(size.still_clock)
    simulated = list(following.STATIONARY)
    task = progress.add_task("stationary", total=len(engine.POLICIES) * len(simulated) + 2)
    rows = []
    for policy in engine.POLICIES:
        if policy == "chaos":
            continue
        row: dict[str, Any] = {"column": policy}
        for case, rates in following.STATIONARY.items():
            progress.update(task, description=f"stationary: {policy}, {case}")
            found = following.still(rates, policy, size.still)
            row[f"{case} finding"], row[case] = found.finding, found.per_million
            progress.advance(task)
        if policy in ("agreedy", "auto"):
            progress.update(task, description=f"stationary: {policy}, by the clock")
            found = following.still_by_the_clock(clocked, policy)
            row["clock finding"], row["clock"] = found.finding, found.per_million
            progress.advance(task)
        rows.append(row)
    progress.remove_task(task)
    columns = [Column("column", "column")]
    for case in simulated:
        columns += [Column(f"{case} finding", f"{case}: while finding", "d"), Column(case, "per million after", ".1f")]
    columns += [
        Column("clock finding", "equal, real clock: while finding", "d"),
        Column("clock", "per million after", ".1f"),
    ]
    section.tables.append(
        Table(
            f"Order changes, {size.still:,} tuples simulated, {size.still_clock:,} with the real clock", columns, rows
        )
    )
    section.notes.append(
        f"While finding: in the first {following.SETTLING:,} tuples. Pass rates: "
        + "; ".join(f"{case} {', '.join(f'{r:g}' for r in rates)}" for case, rates in following.STATIONARY.items())
        + ". For `lottery`, changes of its most likely route count."
    )
    return section
