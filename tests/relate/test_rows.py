"""Rows under numbers, what waits, and the compiled loops, each against its plain twin."""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.relate.course import VALUES, plain, rows_of, table_of, value_of

from thalweg.contract.relation import FOREVER
from thalweg.relate.instants import multiples, next_multiple, timestamps
from thalweg.relate.kernels.sums import add_doubles, add_up, in_two, rounded
from thalweg.relate.rows.agenda import Agenda
from thalweg.relate.rows.dictionary import Dictionary
from thalweg.relate.rows.netting import netted
from thalweg.relate.rows.queues import Queues
from thalweg.relate.rows.same import same
from thalweg.relate.rows.texts import Texts
from thalweg.state.slice import ALWAYS

EVERY_TYPE = [
    *VALUES,
    pa.int8(),
    pa.date32(),
    pa.timestamp("us", tz="UTC"),
    pa.binary(),
    pa.binary(3),
    pa.large_string(),
    pa.float32(),
    pa.decimal256(50, 3),
    pa.null(),
    pa.map_(pa.string(), pa.int32()),
    pa.list_(pa.struct([("a", pa.int32()), ("b", pa.string())])),
    pa.struct([("t", pa.struct([("u", pa.string())])), ("v", pa.bool_())]),
    pa.dictionary(pa.int32(), pa.string()),
]
SAMPLES: dict[str, list[Any]] = {
    "int8": [1, -1, None],
    "date32[day]": [None, 3, -4],
    "timestamp[us, tz=UTC]": [None, 3, -4],
    "binary": [b"", b"\0", None],
    "fixed_size_binary[3]": [b"abc", b"\0\0\0", None],
    "large_string": ["x", "", None],
    "float": [1.5, math.nan, None],
    "decimal256(50, 3)": [None, 5, -7],
    "null": [None],
    "map<string, int32>": [None, [("a", 1)], [("a", None)], []],
    "list<item: struct<a: int32, b: string>>": [None, [], [{"a": 1, "b": None}], [None]],
    "struct<t: struct<u: string>, v: bool>": [None, {"t": None, "v": True}, {"t": {"u": None}, "v": True}],
    "dictionary<values=string, indices=int32, ordered=0>": ["p", "q", None],
}


def samples(dtype: pa.DataType) -> list[Any]:
    return VALUES.get(dtype) or SAMPLES[str(dtype)]


@pytest.mark.parametrize("dtype", EVERY_TYPE, ids=str)
def test_rows_of_every_type_come_back(dtype: pa.DataType) -> None:
    chance = np.random.default_rng(1)
    values = [samples(dtype)[int(chance.integers(len(samples(dtype))))] for _ in range(40)]
    table = pa.table({"v": pa.array(values, dtype), "n": pa.array(chance.integers(0, 2, 40))})
    found = Dictionary(table.schema)
    numbers = found.encode(table)
    assert found.rows(numbers).schema == table.schema
    assert rows_of(found.rows(numbers)) == rows_of(table)
    assert len(found) == len(set(rows_of(table))) == len(set(numbers.tolist()))
    again = Dictionary(table.schema)
    again.restore(found.snapshot())
    assert (again.encode(table.slice(7)) == numbers[7:]).all()
    found.release(numbers)
    assert len(found) == 0


@pytest.mark.parametrize("seed", range(6))
def test_a_dictionary_forgets_and_uses_numbers_again(seed: int) -> None:
    chance = np.random.default_rng(seed)
    schema = pa.schema([("s", pa.string()), ("x", pa.float64()), ("k", pa.int64())])
    found = Dictionary(schema)
    found.add_field("note", -1)
    found.add_field("wide", 0.5, np.float64, 2)
    twin: dict[Any, int] = {}
    for step in range(60):
        rows = [(f"t{chance.integers(40)}", value_of(chance, pa.float64()), int(chance.integers(3))) for _ in range(20)]
        numbers = found.encode(table_of(rows, schema))
        for row, number in zip(rows, numbers.tolist(), strict=True):
            assert twin.setdefault(plain(row), number) == number
        found.fields["note"][numbers] = numbers + step
        found.touch(numbers)
        gone = [row for row in list(twin) if chance.random() < 0.3]
        found.release(np.array([twin.pop(row) for row in gone] * 2, np.int64))
        assert len(found) == len(twin)
        assert rows_of(found.rows(np.array(list(twin.values()), np.int64))) == list(twin)
        if chance.random() < 0.2:
            fresh = Dictionary(schema)
            fresh.add_field("note", -1)
            fresh.add_field("wide", 0.5, np.float64, 2)
            fresh.restore(found.snapshot())
            alive = fresh.numbers()
            assert (fresh.fields["note"][alive] == found.fields["note"][alive]).all()
            found = fresh
    assert found.capacity < 2_000
    assert (found.fields["note"][[n for n in range(found.capacity) if n not in twin.values()]] == -1).all()


def test_bits_are_kept_unless_rows_are_grouped() -> None:
    table = pa.table({"x": [0.0, -0.0, math.nan, -math.nan]})
    assert len(set(Dictionary(table.schema).encode(table).tolist())) == 2
    exact = Dictionary(table.schema, grouping=False)
    numbers = exact.encode(table)
    assert len(set(numbers.tolist())) == 4
    assert math.copysign(1, exact.rows(numbers)["x"][1].as_py()) == -1


def test_a_snapshot_writes_only_the_blocks_that_changed() -> None:
    schema = pa.schema([("k", pa.int64())])
    found = Dictionary(schema)
    found.add_field("count")
    numbers = found.encode(pa.table({"k": np.arange(10_000)}))
    first = found.snapshot()
    assert len(first) == 10
    found.fields["count"][numbers[5]] = 9
    found.touch(numbers[5:6])
    second = found.snapshot()
    assert sum(first[name] is not second[name] for name in first) == 1
    assert [name for name in first if first[name] != second[name]] == [f"rows/{numbers[5] // 1024}"]


def test_a_row_that_is_only_added_changes_its_block() -> None:
    found = Dictionary(pa.schema([("k", pa.int64())]))
    found.encode(pa.table({"k": [1]}))
    found.snapshot()
    number = found.encode(pa.table({"k": [2]}))
    again = Dictionary(found.schema)
    again.restore(found.snapshot())
    assert again.rows(number)["k"].to_pylist() == [2]


@pytest.mark.parametrize("seed", range(5))
def test_texts(seed: int) -> None:
    chance, texts = np.random.default_rng(seed), Texts()
    held: list[int] = []
    twin: dict[int, bytes] = {}
    for _ in range(80):
        some = [b"x" * int(chance.integers(0, 30)) + str(chance.integers(9)).encode() for _ in range(10)]
        numbers = texts.numbers(pa.array(some, pa.large_binary()))
        kept = numbers[chance.random(10) < 0.5]
        twin |= dict(zip(numbers.tolist(), some, strict=True))
        texts.hold(kept)
        texts.settle(numbers)
        held += kept.tolist()
        chance.shuffle(held)
        drop, held = held[: len(held) // 2], held[len(held) // 2 :]
        texts.drop(np.array(drop, np.int64))
        offsets, data = texts.take(np.array([*held, -1], np.int64))
        found = [data[a:b].tobytes() for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]
        assert found == [*(twin[n] for n in held), b""]
        assert len(texts) == len(set(held))
    assert texts.nbytes < 20_000


def test_netting() -> None:
    chance = np.random.default_rng(0)
    numbers, time = chance.integers(0, 5, 300), np.sort(chance.integers(0, 60, 300))
    sign = chance.choice([-1, 1], 300)
    found = netted(numbers, time, sign, np.full(5, 10**9))
    wanted: dict[tuple[int, int], int] = defaultdict(int)
    for n, t, s in zip(numbers.tolist(), time.tolist(), sign.tolist(), strict=True):
        wanted[t, n] += s
    assert list(zip(found.time.tolist(), found.number.tolist(), strict=True)) == list(wanted)
    assert found.net.tolist() == list(wanted.values())
    assert (found.number[found.entry] == numbers).all()


@pytest.mark.parametrize("seed", range(20))
def test_expansions_are_exact(seed: int) -> None:
    """Against math.fsum and fractions, with sizes that differ by hundreds of digits and half-way cases."""
    chance = np.random.default_rng(seed)
    values = np.ldexp(chance.integers(-(2**20), 2**20, 200).astype(float), chance.integers(-60, 60, 200))
    if seed % 2:
        values = chance.standard_normal(200) * 10.0 ** chance.integers(-200, 200, 200)
    entry, sign = np.sort(chance.integers(0, 20, 200)), chance.integers(-3, 4, 200)
    old = np.r_[0, 1 + np.arange(19)]
    out = np.empty((21, 200))
    assert add_doubles(np.zeros((1, 200)), old, entry, sign, values, out)
    total = Fraction()
    for e in range(20):
        total += sum(
            (Fraction(v) * int(s) for v, s in zip(values[entry == e], sign[entry == e], strict=True)), Fraction()
        )
        parts = [p for p in out[e + 1].tolist() if p]
        assert sum(map(Fraction, parts), Fraction()) == total
        assert rounded(out[e + 1 : e + 2])[0] == math.fsum(parts) == float(total)
        high, low = in_two(out[e + 1 : e + 2])
        assert high[0] == float(total)
        assert low[0] == pytest.approx(float(total - Fraction(float(total))), rel=1e-12)
    small = np.empty((21, 1))
    assert not add_doubles(np.zeros((1, 1)), old, entry, sign, values, small), "one double has no room for them"


def test_sums_by_entry() -> None:
    chance = np.random.default_rng(0)
    before, values = chance.integers(-9, 9, (2, 3)), chance.integers(-9, 9, (50, 3))
    entry, sign = np.sort(chance.integers(0, 6, 50)), chance.integers(-2, 3, 50)
    old = np.array([0, 1, 2, 4, 3, 6])
    out = add_up(before, old, entry, sign, values)
    wanted = [*before]
    for e in range(6):
        wanted.append(wanted[old[e]] + (sign[entry == e, None] * values[entry == e]).sum(axis=0))
    assert (out == np.array(wanted)).all()


@pytest.mark.parametrize("seed", range(5))
def test_an_agenda_gives_what_is_due_in_order(seed: int) -> None:
    chance = np.random.default_rng(seed)
    schema = pa.schema([("k", pa.int64())])
    agenda, waiting, frontier = Agenda(schema), [], 0
    for step in range(60):
        keys = chance.integers(0, 5, int(chance.integers(0, 10)))
        time = frontier + chance.integers(0, 50, len(keys))
        sign = chance.choice([-1, 1, 2], len(keys))
        agenda.add(agenda.rows.encode(pa.table({"k": keys})), time, sign)
        waiting += zip(time.tolist(), [step] * len(keys), keys.tolist(), sign.tolist(), strict=True)
        frontier += int(chance.integers(0, 12))
        if chance.random() < 0.3:
            fresh = Agenda(schema)
            parts = agenda.snapshot()
            assert parts == agenda.snapshot()
            fresh.restore(parts)
            agenda = fresh
        rows, when, signs = agenda.due(frontier)
        found = list(zip(when.tolist(), agenda.rows.rows(rows)["k"].to_pylist(), signs.tolist(), strict=True))
        agenda.drop(rows)
        due = sorted((w for w in waiting if w[0] < frontier), key=lambda w: w[:2])
        waiting = [w for w in waiting if w[0] >= frontier]
        assert found == [(t, k, s) for t, _, k, s in due]
        assert len(agenda) == len(waiting)
        assert len(agenda.rows) == len({k for _, _, k, _ in waiting})


def test_queues_push_out_the_oldest() -> None:
    chance, queues = np.random.default_rng(0), Queues(3)
    twin: dict[int, deque[int]] = defaultdict(deque)
    for step in range(40):
        groups, items = chance.integers(0, 6, 9), np.arange(9) + 9 * step
        wanted = []
        for g, i in zip(groups.tolist(), items.tolist(), strict=True):
            twin[g].append(i)
            wanted.append(twin[g].popleft() if len(twin[g]) > 3 else -1)
        assert queues.push(groups, items).tolist() == wanted
        if step % 7 == 0:
            fresh = Queues(3)
            fresh.restore(queues.snapshot())
            queues = fresh
    assert len(queues) == sum(map(len, twin.values()))


@pytest.mark.parametrize("dtype", [t for t in EVERY_TYPE if not pa.types.is_dictionary(t)], ids=str)
def test_same_values(dtype: pa.DataType) -> None:
    values = samples(dtype) * 2
    array = pa.array(values, dtype)
    left, right = (a.reshape(-1) for a in np.meshgrid(np.arange(len(values)), np.arange(len(values))))
    shown = [plain(v) for v in array.to_pylist()]
    assert same(array, left, right).tolist() == [shown[a] == shown[b] for a, b in zip(left, right, strict=True)]


def test_instants() -> None:
    times = np.array([ALWAYS, -7, -5, 0, 1, 5, 6])
    assert next_multiple(times, 5).tolist() == [ALWAYS, -5, -5, 0, 5, 5, 10]
    assert multiples(-6, 11, 5).tolist() == [-5, 0, 5, 10]
    assert multiples(1, 5, 5).tolist() == []
    assert timestamps(np.array([ALWAYS, 1_500]), "ns").cast(pa.int64()).to_pylist() == [None, 1]
    assert timestamps(np.array([7]), "us", pa.timestamp("ns")).cast(pa.int64()).to_pylist() == [7_000]
    assert Counter(multiples(0, 100, 7).tolist()) == Counter(range(0, 100, 7))


@pytest.mark.parametrize("seed", range(3))
def test_a_snapshot_of_an_agenda_holds_what_waits_now(seed: int) -> None:
    """Runs come, merge and go between snapshots. Python gives the id of one that is gone to a new one."""
    rng = np.random.default_rng(seed)
    schema = pa.schema([("k", pa.int64())])

    def waits(agenda: Agenda) -> Counter[int]:
        return Counter(agenda.rows.rows(agenda.waiting(FOREVER)[0])["k"].to_pylist())

    agenda, now = Agenda(schema), 0
    for _ in range(100):
        for n in rng.integers(1, 6, rng.integers(0, 4)):
            rows = agenda.rows.encode(pa.table({"k": rng.integers(0, 50, n)}))
            agenda.add(rows, now + rng.integers(0, 20, n), np.ones(n, np.int64))
        restored = Agenda(schema)
        restored.restore(agenda.snapshot())
        assert waits(restored) == waits(agenda)
        now += int(rng.integers(0, 6))
        agenda.drop(agenda.due(now)[0])
