"""The limit: joins written by hand for J and J3, with the data's phases and the best order of each known in advance.

One thread takes one tuple at a time in order of arrival. Results are counted and summed, neither stored nor materialised.
Chains run from the newest tuple back, so a walk ends where the window does, and nothing is ever evicted.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numba import njit

from benchmarks.joins.workloads import DOMAINS, MATCHING, PAIRS, PHASE, WINDOW

BUCKETS = 1 << 15

_LINK = np.full((4, 4), -1, np.int64)
for _number, (_a, _b) in enumerate(PAIRS):
    _LINK[_a - 1, _b - 1] = _LINK[_b - 1, _a - 1] = _number


def orders(known: bool) -> np.ndarray[Any, Any]:
    """The number of key values per phase and pair, by which the kernel ranks. If unknown, those of phase 0."""
    table = np.array([[DOMAINS[(MATCHING[j] - p) % 3] for j in range(6)] for p in range(3)])
    return table if known else np.broadcast_to(table[0], table.shape).copy()


def run_clique(tables: dict[str, pa.Table], *, known: bool = True) -> tuple[int, int, int]:
    """J with an index per attribute and per pair of attributes: results, checksum, candidates examined."""
    tuples = tables["s1"].num_rows
    keys = np.zeros((4, tuples, 4), np.int32)
    for s in range(4):
        for u in range(4):
            if s != u:
                keys[s, :, u] = tables[f"s{s + 1}"][f"a{min(s, u) + 1}{max(s, u) + 1}"].to_numpy()
    found = _clique(keys, _LINK, orders(known), WINDOW, PHASE)
    return int(found[0]), int(found[1]), int(found[2])


@njit(cache=True, inline="always")  # type: ignore[untyped-decorator]
def _bucket(x: int, y: int) -> int:
    return ((x * 5000 + y) * 2654435761 >> 7) & (BUCKETS - 1)


@njit(cache=True)  # type: ignore[untyped-decorator]
def _clique(keys, link, rank, window, phase_length):  # type: ignore[no-untyped-def]
    streams, tuples = keys.shape[0], keys.shape[1]
    head = np.full((4, 4, 5000), -1, np.int32)
    chain = np.full((4, tuples, 4), -1, np.int32)
    pair_head = np.full((4, 6, BUCKETS), -1, np.int32)
    pair_chain = np.full((4, tuples, 6), -1, np.int32)
    count, total, looked = 0, 0, 0
    at = np.zeros(4, np.int64)
    for i in range(tuples):
        oldest = i - window
        now = i // phase_length % 3
        for s in range(streams):
            u = -1
            for x in range(streams):
                if x != s and (u < 0 or rank[now, link[s, x]] > rank[now, link[s, u]]):
                    u = x
            first, second = -1, -1
            for x in range(streams):
                if x != s and x != u:
                    if first < 0:
                        first = x
                    else:
                        second = x
            iu = head[u, s, keys[s, i, u]]
            while iu > oldest and iu >= 0:
                looked += 1
                then = iu // phase_length % 3
                v, w = first, second
                if rank[now, link[s, v]] * rank[then, link[u, v]] < rank[now, link[s, w]] * rank[then, link[u, w]]:
                    v, w = second, first
                ks, ku = keys[s, i, v], keys[u, iu, v]
                pair = link[s, u]
                iv = pair_head[v, pair, _bucket(ks, ku) if s < u else _bucket(ku, ks)]
                while iv > oldest and iv >= 0:
                    looked += 1
                    if keys[v, iv, s] == ks and keys[v, iv, u] == ku:
                        before = iv // phase_length % 3
                        via, key = s, keys[s, i, w]
                        best = rank[now, link[s, w]]
                        if rank[then, link[u, w]] > best:
                            via, key, best = u, keys[u, iu, w], rank[then, link[u, w]]
                        if rank[before, link[v, w]] > best:
                            via, key = v, keys[v, iv, w]
                        iw = head[w, via, key]
                        while iw > oldest and iw >= 0:
                            looked += 1
                            if (
                                keys[w, iw, s] == keys[s, i, w]
                                and keys[w, iw, u] == keys[u, iu, w]
                                and keys[w, iw, v] == keys[v, iv, w]
                            ):
                                at[s], at[u], at[v], at[w] = i, iu, iv, iw
                                count += 1
                                total += 7 * at[0] + 5 * at[1] + 3 * at[2] + at[3]
                            iw = chain[w, iw, via]
                    iv = pair_chain[v, iv, pair]
                iu = chain[u, iu, s]
            for x in range(streams):
                if x != s:
                    key = keys[s, i, x]
                    chain[s, i, x] = head[s, x, key]
                    head[s, x, key] = i
                    for y in range(x + 1, streams):
                        if y != s:
                            pair = link[x, y]
                            bucket = _bucket(key, keys[s, i, y])
                            pair_chain[s, i, pair] = pair_head[s, pair, bucket]
                            pair_head[s, pair, bucket] = i
    return count, total, looked


def run_common_key(tables: dict[str, pa.Table], *, known: bool = True) -> tuple[int, int, int]:
    """J3: one chain per stream and key; the streams that were quiet most recently come first."""
    keys = np.stack([tables[f"s{s}"]["k"].to_numpy() for s in range(1, 5)])
    found = _common_key(keys, WINDOW, PHASE if known else 1 << 60)
    return int(found[0]), int(found[1]), int(found[2])


@njit(cache=True)  # type: ignore[untyped-decorator]
def _common_key(keys, window, phase_length):  # type: ignore[no-untyped-def]
    streams, tuples = keys.shape
    head = np.full((streams, 40_000), -1, np.int32)
    chain = np.full((streams, tuples), -1, np.int32)
    count, total, looked = 0, 0, 0
    at = np.zeros(4, np.int64)
    order = np.zeros(3, np.int64)
    for i in range(tuples):
        oldest = i - window
        quiet = i // phase_length % 4
        for s in range(streams):
            key = keys[s, i]
            place = 0
            for back in range(streams):
                x = (quiet - back) % streams
                if x != s:
                    order[place] = x
                    place += 1
            u, v, w = order[0], order[1], order[2]
            iu = head[u, key]
            looked += 1
            if iu > oldest and iu >= 0 and head[v, key] > oldest and head[w, key] > oldest:
                while iu > oldest and iu >= 0:
                    iv = head[v, key]
                    while iv > oldest and iv >= 0:
                        iw = head[w, key]
                        while iw > oldest and iw >= 0:
                            at[s], at[u], at[v], at[w] = i, iu, iv, iw
                            count += 1
                            looked += 1
                            total += 7 * at[0] + 5 * at[1] + 3 * at[2] + at[3]
                            iw = chain[w, iw]
                        iv = chain[v, iv]
                    iu = chain[u, iu]
            chain[s, i] = head[s, key]
            head[s, key] = i
    return count, total, looked
