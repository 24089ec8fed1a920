"""Snapshot: everything that an engine needs to go on elsewhere, and how it is taken up.

Slices and waiting rows are Arrow parts of their own, so that only what changed has to be written again; the rest is one
JSON record. Invariant: taking a snapshot changes nothing, and an engine that restores one decides as the engine would
have that wrote it. What a policy has not been told yet is part of the record.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import astuple
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thalweg.contract import learned
from thalweg.contract.visits import Journey, Probe, Trial, Visit, Visits
from thalweg.engine.adopt import adopt, adoptable, stored
from thalweg.engine.dispatch import Dispatch
from thalweg.engine.identity import Comparison, compare, identity
from thalweg.engine.sources import Feed
from thalweg.engine.stage import Counts, Stage
from thalweg.errors import CheckpointError
from thalweg.plan import Event, Reason, Route, Ruster
from thalweg.state import record as record_of_stem
from thalweg.state.format import FORMAT, check_format
from thalweg.state.store import read_ipc, write_ipc

if TYPE_CHECKING:
    from thalweg.engine.block import BlockEngine

TIME = "\0time"


def write(engine: BlockEngine) -> dict[str, bytes]:
    """The parts of an engine, by name."""
    parts: dict[str, bytes] = {}
    record: dict[str, Any] = {
        "format": FORMAT,
        "identity": identity(engine.shape),
        "tick": engine.sources.tick,
        "seed": engine.seed,
        "counts": [engine.flow.batches, engine.flow.output.count, engine.begun, engine.closed],
        "tuning": None if engine.flow.tuning is None else engine.flow.tuning.snapshot(),
        "caching": None if engine.flow.caching is None else engine.flow.caching.snapshot(),
        "sources": {},
        "lifetimes": None if engine.flow.output.lifetimes is None else engine.flow.output.lifetimes.snapshot(),
        "inputs": {},
        "stems": {},
    }
    for name, feed in engine.feeds.items():
        record["sources"][name] = [feed.watermark, feed.newest, feed.rows, feed.late, feed.timeless, feed.released]
        if name not in engine.given:
            for k, (times, data) in enumerate(feed.waiting):
                table = pa.Table.from_batches([data]).append_column(TIME, pa.array(times))
                parts[f"waiting/{name}/{k}"] = write_ipc(table)
    for stage in engine.stages:
        record["inputs"][stage.alias] = _write_stage(stage, parts)
    for store in engine.shape.stores:
        if engine.query.inputs[store.inputs[0]].source not in engine.given:
            stem = engine.flow.stems[store.name]
            record["stems"][store.name] = record_of_stem.write(stem)
            parts |= {f"slice/{store.name}/{part.number}": stem.dump(part) for part in stem.slices}
    parts["record"] = json.dumps(record).encode()
    return parts


def _write_stage(stage: Stage, parts: dict[str, bytes]) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "counts": list(astuple(stage.counts)),
        "dispatch": None if stage.dispatch is None else write_dispatch(stage.dispatch),
        "monitors": {m.name: m.snapshot() for m in stage.monitors},
    }
    if stage.order is not None:
        waiting, partitions = stage.order.dump()
        parts[f"order/{stage.alias}"] = write_ipc(waiting)
        parts[f"partitions/{stage.alias}"] = write_ipc(partitions)
        entry["order"] = stage.order.released
    return entry


def read(engine: BlockEngine, parts: Mapping[str, bytes]) -> None:
    """Take up what `write` wrote of an equal or a similar query. The engine must be fresh, with the same tables."""
    record = record_in(parts)
    found = compared(engine, record)
    if not found.same:
        _read_similar(engine, record, parts, found)
        return
    engine.flow.batches, engine.flow.output.count, engine.begun, engine.closed = record["counts"]
    for name, values in record["sources"].items():
        feed = engine.feeds[name]
        own = feed.rows
        feed.watermark, feed.newest, feed.rows, feed.late, feed.timeless, feed.released = values
        if name in engine.given:
            feed.rows = own  # a table may have been read again
        else:
            _read_waiting(feed, parts)
    # Another tuner, none, or one of another version starts afresh: layouts can be rebuilt and are no part of the answer.
    tuned = record["tuning"]
    known = engine.flow.tuning is not None and tuned is not None and engine.flow.tuning.reads(tuned)
    for stage in engine.stages:
        _read_stage(stage, record["inputs"][stage.alias], parts, known=stage.alias not in found.relearned)
    for name, entry in record["stems"].items():
        slices = [parts[f"slice/{name}/{number}"] for number, *_ in entry["slices"]]
        record_of_stem.read(engine.flow.stems[name], entry, slices, layouts=known)
    if engine.flow.output.lifetimes is not None and record["lifetimes"] is not None:
        engine.flow.output.lifetimes.restore(record["lifetimes"])
    if known and engine.flow.tuning is not None:
        engine.flow.tuning.restore(tuned)
    if engine.flow.caching is not None:
        engine.flow.caching.restore(record.get("caching"))
    tell(engine, found)


def record_in(parts: Mapping[str, bytes]) -> dict[str, Any]:
    """The record of a snapshot, if this version can read it."""
    record: dict[str, Any] = json.loads(parts["record"])
    check_format(record.get("format", 1))
    return record


def compared(engine: BlockEngine, record: Mapping[str, Any]) -> Comparison:
    """How an engine differs from the one that wrote a state; raises if it can't take it up."""
    found = compare(record["identity"], identity(engine.shape))
    if record["tick"] != engine.sources.tick:
        found.refused.append(f"times were counted in {record['tick']} and are in {engine.sources.tick}")
    if found.refused:
        raise CheckpointError(
            found.refused[0] if len(found.refused) == 1 else f"this state belongs to another query: {found.refused[0]}",
            where="\n".join(found.refused[1:]),
            hint="restore what changed, or start from a new checkpoint folder",
        )
    return found


def _read_similar(
    engine: BlockEngine, record: Mapping[str, Any], parts: Mapping[str, bytes], found: Comparison
) -> None:
    """Store the rows again: other windows, columns or aliases."""
    adoptable(engine, record)
    before = engine.aliases_before = found.aliases
    engine.flow.batches, engine.flow.output.count, engine.begun, engine.closed = record["counts"]
    held = {alias: [table] for alias, table in stored(record, parts)}
    rows = {alias: held.get(old, []) for alias, old in before.items()}
    clocks = {alias: record["sources"][old] for alias, old in before.items() if alias not in engine.given}
    adopt(engine, record["identity"], rows, clocks)
    for stage in engine.stages:
        entry = record["inputs"][before[stage.alias]]
        stage.counts = Counts(*entry["counts"])
        if stage.dispatch is not None and entry["dispatch"] is not None and stage.alias not in found.relearned:
            read_dispatch(stage.dispatch, entry["dispatch"])
    tell(engine, found)


def tell(engine: BlockEngine, found: Comparison) -> None:
    """Events for what follows from a difference."""
    engine.flow.events += [Event("restart", "state moved", 0, 0, Reason(note)) for note in found.notes]


def _read_waiting(feed: Feed, parts: Mapping[str, bytes]) -> None:
    feed.waiting = []
    while (content := parts.get(f"waiting/{feed.name}/{len(feed.waiting)}")) is not None:
        table = read_ipc(content)
        times = np.array(table[TIME].to_numpy(), np.int64)
        feed.waiting.append((times, table.drop_columns([TIME]).combine_chunks().to_batches()[0]))


def _read_stage(stage: Stage, entry: Mapping[str, Any], parts: Mapping[str, bytes], *, known: bool) -> None:
    stage.counts = Counts(*entry["counts"])
    for monitor in stage.monitors:
        if monitor.name in entry["monitors"]:
            monitor.restore(entry["monitors"][monitor.name])
    if stage.dispatch is not None and entry["dispatch"] is not None and known:
        read_dispatch(stage.dispatch, entry["dispatch"])
    if stage.order is not None:
        waiting, partitions = read_ipc(parts[f"order/{stage.alias}"]), read_ipc(parts[f"partitions/{stage.alias}"])
        stage.order.load(waiting, partitions, entry["order"])


# What a policy knows, and what it has not been told yet


def write_dispatch(dispatch: Dispatch) -> dict[str, Any]:
    return {
        "policy": learned.record(dispatch.policy),
        "frozen": None if dispatch.frozen is None else list(dispatch.frozen),
        "by class": dispatch.by_class,
        "rest": dispatch.rest,
        "rusters": [_write_ruster(r) for r in dispatch.rusters] if dispatch.rest else [],
        "untold": [[v.batch, v.rows, [_write_journey(j) for j in v.journeys]] for v in dispatch.untold],
    }


def read_dispatch(dispatch: Dispatch, record: Mapping[str, Any]) -> None:
    """A policy that starts afresh is not told what another one sent for."""
    dispatch.frozen = None if record["frozen"] is None else Route(tuple(record["frozen"]))
    dispatch.by_class = record["by class"]
    taken = learned.take_up(dispatch.policy, record["policy"])
    dispatch.events += taken
    if taken or record["policy"].get("policy") != dispatch.policy.name:
        return
    dispatch.rest = record["rest"]
    dispatch.rusters = [_read_ruster(r) for r in record["rusters"]]
    dispatch.untold = [Visits(batch, rows, tuple(map(_read_journey, js))) for batch, rows, js in record["untold"]]


def _write_ruster(r: Ruster) -> list[Any]:
    also = sorted(r.also) if isinstance(r.also, frozenset) else r.also
    routes = [list(route) for route in r.routes]
    told = [r.trace, r.limit, r.turn]
    return [_write_array(r.rows), r.purpose, also, told, routes, list(r.labels), _write_array(r.ids), r.phases]


def _read_ruster(record: list[Any]) -> Ruster:
    rows, purpose, also, told, routes, labels, ids, *phases = record
    tried: Any = also if isinstance(also, str) else frozenset(also)
    ways = tuple(Route(tuple(route)) for route in routes)
    rest = [*told, ways, tuple(labels), _read_array(ids, np.int32), *phases]
    return Ruster(_read_array(rows, np.int64), ways[0], purpose, tried, labels[0], *rest)


def _write_journey(j: Journey) -> list[Any]:
    trials = [[sorted(t.visited), *astuple(t)[1:]] for t in j.trials]
    arrays = [_write_array(a) for a in (j.passed, j.matches, j.dropped, j.counts, j.begun)]
    told = [j.rows, [astuple(v) for v in j.visits], trials, j.recalled, j.entries, arrays]
    return [_write_ruster(j.ruster), *told, [astuple(p) for p in j.probes], _write_array(j.probed)]


def _read_journey(record: list[Any]) -> Journey:
    ruster, rows, visits, trials, recalled, entries, arrays, *probing = record
    kinds = (np.int8, np.int64, np.int16, np.int64, np.int64)
    passed, matches, dropped, counts, begun = (_read_array(a, kind) for a, kind in zip(arrays, kinds, strict=True))
    met = tuple(Trial(frozenset(seen), *t) for seen, *t in trials)
    told = tuple(Visit(*v) for v in visits)
    probes, probed = probing or ((), None)
    ahead, bits = tuple(Probe(*p) for p in probes), _read_array(probed, np.int8)
    return Journey(
        _read_ruster(ruster), rows, told, passed, matches, met, recalled, entries, dropped, counts, begun, ahead, bits
    )


def _write_array(array: NDArray[Any] | None) -> list[Any] | None:
    return None if array is None else [list(array.shape), array.ravel().tolist()]


def _read_array(record: list[Any] | None, dtype: Any) -> NDArray[Any] | None:
    return None if record is None else np.array(record[1], dtype).reshape(record[0])
