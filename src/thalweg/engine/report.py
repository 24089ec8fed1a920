"""What a cell says about itself: its counts, state, routes and indexes as the reports of `contract/report.py`.

Taking a report changes no decision. It does take the counts per class with it, which describe one batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from thalweg.contract.explanation import Explanation
from thalweg.contract.report import ClassReport, IndexReport, InputReport, OperatorReport, RoutingReport
from thalweg.plan import Reason, Route

if TYPE_CHECKING:
    from thalweg.engine.block import BlockEngine
    from thalweg.engine.engine import Engine
    from thalweg.engine.filtercell import FilterCell

FROZEN, THAW = Reason("frozen"), Reason("thaw()")


def of_filters(cell: FilterCell, alias: str) -> InputReport:
    """What the filters of one input did."""
    names, tally = cell.pipeline.names, cell.tally
    operators = [
        OperatorReport(
            name,
            tally.calls[k] - tally.extra[k],
            tally.passed[k],
            tally.extra[k],
            tally.seconds[k],
            tried=tally.tried[k],
            held=tally.held[k],
            written=tally.written_calls[k],
        )
        for k, name in enumerate(names)
    ]
    pinned = cell.frozen if isinstance(cell.frozen, Route) else None
    frozen, told = cell.frozen is not None, cell.policy.explain()
    routing = RoutingReport(
        _named(cell.policy.plan.route if pinned is None else pinned, names),
        FROZEN if frozen else told.why,
        THAW if frozen else told.to_change,
        cell.policy.plan.version,
        frozen,
        () if pinned is not None else _classes(told, tally.classes.now(), names),
        "" if pinned is not None else told.tree,
    )
    return InputReport(
        alias, tally.rows_in, tally.rows_out, sampled=tally.sampled, operators=tuple(operators), routing=routing,
        failed=0 if cell.faults is None else cell.faults.count,
    )  # fmt: skip


def of_engine(engine: Engine) -> tuple[InputReport, ...]:
    """What each input of every block met and keeps, since the engine's first batch."""
    blocks = zip(engine.blocks, engine.names, strict=True)
    return tuple(replace(told, alias=names[told.alias]) for block, names in blocks for told in of_block(block))


def of_block(engine: BlockEngine) -> tuple[InputReport, ...]:
    """What each input of a block met and keeps."""
    stats, needed, met = engine.stats(), engine.needed(), engine.classes()
    explained, indexes = engine.explain(), engine.indexes()
    reports = []
    for stage in engine.stages:
        alias, names = stage.input.alias, stage.pipeline.names
        counts, source = stats["inputs"][alias], stats["sources"][stage.input.source]
        operators = [_stem(name, counts["operators"].get(name)) for name in names]
        routing = None
        if alias in explained:
            told, pinned = explained[alias], engine.frozen.get(alias)
            by_class = pinned is None or alias in engine.steering.by_class
            routing = RoutingReport(
                _named(told.routes[0].route if pinned is None else pinned, names),
                FROZEN if pinned is not None else told.why,
                THAW if pinned is not None else told.to_change,
                0 if stage.policy is None else stage.policy.plan.version,
                frozen=pinned is not None,
                classes=_classes(told, met[alias], names) if by_class else (),
                tree=told.tree if by_class else "",
            )
        reports.append(
            InputReport(
                alias,
                counts["rows in"],
                late=source["late"],
                timeless=source["without time"],
                work=counts["work"],
                profiling_work=counts["profiling work"],
                stored=counts["stored"],
                needed=needed.get(alias, counts["stored"]),
                row_bytes=counts["bytes"],
                index_bytes=counts["index bytes"],
                waiting=source["waiting"],
                watermark=source["watermark"],
                operators=tuple(operators),
                routing=routing,
                failed=engine.faults.count if engine.faults is not None and stage.number == 0 else 0,
                index=IndexReport(**asdict(indexes[alias])) if alias in indexes else None,
            )
        )
    return tuple(reports)


def _stem(name: str, met: Mapping[str, float] | None) -> OperatorReport:
    if met is None:
        return OperatorReport(name)
    rows_in, rows_out, buckets = (int(met[k]) for k in ("rows in", "rows out", "buckets"))
    return OperatorReport(name, rows_in, rows_out, seconds=met["seconds"], work=met["work"], buckets=buckets)


def _named(route: Route, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(names[k] for k in route)


def _classes(told: Explanation, met: Mapping[str, Sequence[int]], names: Sequence[str]) -> tuple[ClassReport, ...]:
    """Each class with what its rows met; none where all rows take one route."""
    if len(told.routes) < 2:
        return ()
    reports = []
    for r in told.routes:
        rows, *counts = met.get(r.label) or [0] * (2 * len(names) + 1)
        came, left = tuple(counts[: len(names)]), tuple(counts[len(names) :])
        reports.append(ClassReport(r.label, r.share, _named(r.route, names), r.estimate, rows, came, left))
    return tuple(reports)
