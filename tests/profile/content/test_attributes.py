"""Which columns can tell classes, what their values become, and how values fall into parts."""

from __future__ import annotations

import datetime as dt
import json
import warnings

import numpy as np
import pyarrow as pa

from thalweg.profile.content.attributes import Attributes
from thalweg.profile.content.partitions import Partitions


def batch(rows: int = 200, start: int = 0) -> pa.RecordBatch:
    random = np.random.default_rng(start)
    return pa.record_batch(
        {
            "id": np.arange(start, start + rows),
            "falling": -np.arange(start, start + rows, dtype=float),
            "when": [dt.datetime(2026, 1, 1) + dt.timedelta(seconds=start + i) for i in range(rows)],
            "kind": pa.array([None if i % 10 == 0 else "ab"[i % 2] for i in range(rows)]),
            "port": random.integers(0, 1000, rows),
            "load": pa.array([None if i % 7 == 0 else float(x) for i, x in enumerate(random.random(rows))]),
            "flag": random.random(rows) < 0.5,
            "comment": [f"{x:.17f}" for x in random.random(rows)],
            "essay": ["x" * 50] * rows,
            "raw": [b"z"] * rows,
            "coded": pa.array(["u", "v"] * (rows // 2)).dictionary_encode(),
        }
    )


def test_sequences_long_texts_and_large_domains_are_left_out():
    a = Attributes()
    a.look(batch())
    usable = [n for n, u in zip(a.names, a.usable, strict=True) if u]
    assert usable == ["kind", "port", "load", "flag", "coded"]
    assert "raw" not in a.names


def test_a_sequence_that_turns_round_comes_back():
    a = Attributes()
    a.look(pa.record_batch({"hour": np.arange(30)}))
    assert a.usable.tolist() == [False]
    a.look(pa.record_batch({"hour": np.tile([23, 0, 1, 2], 10)}))
    assert a.usable.tolist() == [True]


def test_times_of_late_tuples_are_left_out_too_and_what_scatters_is_not():
    random, a = np.random.default_rng(4), Attributes()
    late = np.arange(200.0) + random.integers(0, 20, 200)
    gaps = pa.array([None if i % 9 == 0 else float(x) for i, x in enumerate(late)])
    leaning = np.arange(200.0) + random.integers(0, 400, 200)  # rises a little, and tells much else
    a.look(pa.record_batch({"ts": late, "gaps": gaps, "down": -late, "leaning": leaning, "one": np.ones(200)}))
    assert a.usable.tolist() == [False, False, False, True, True]


def test_values_are_numbers_nulls_are_nan_and_equal_texts_are_equal():
    a, rows = Attributes(), batch()
    values = a.look(rows)
    kind, load, coded = (a.names.index(n) for n in ("kind", "load", "coded"))
    assert np.isnan(values[::10, kind]).all()
    assert len(set(values[1::20, kind].tolist())) == 1
    assert values[1, kind] != values[2, kind]
    assert np.isnan(values[::7, load]).all()
    assert values[1, load] == np.float32(rows.column("load")[1].as_py())
    assert values[0, coded] == values[2, coded] != values[1, coded]
    assert a.word(kind, float(values[1, kind])) == "b"


def test_another_batch_of_the_same_text_has_the_same_codes():
    a = Attributes()
    a.look(pa.record_batch({"k": ["x", "y", "x"]}))
    assert (
        a.column(pa.record_batch({"k": ["y", "x"]}), 0).tolist()
        == a.column(pa.record_batch({"k": ["x", "y"]}), 0).tolist()[::-1]
    )


def test_it_survives_a_snapshot():
    a = Attributes()
    a.look(batch())
    b = Attributes()
    b.restore(json.loads(json.dumps(a.snapshot())))
    assert (b.names, b.usable.tolist()) == (a.names, a.usable.tolist())
    assert not b.known(pa.record_batch({"other": [1]}))


def test_ranges_grow_and_say_so():
    p = Partitions(d=8)
    assert p.widen(np.array([[0.0], [8.0]], np.float32), [False]) == [0]
    assert p.widen(np.array([[3.0]], np.float32), [False]) == []
    assert p.parts(np.array([0.0, 4.0, 8.0, np.nan, np.inf, 99.0], np.float32), 0, False).tolist() == [0, 4, 7, 8, 8, 7]
    assert p.widen(np.array([[16.0]], np.float32), [False]) == [0]
    assert (p.low[0], p.high[0]) == (0.0, 24.0)


def test_few_whole_numbers_have_a_part_each():
    p = Partitions()
    column = np.arange(20, dtype=np.float32)
    p.widen(column[:, None], [False])
    parts = p.parts(column, 0, False)
    assert len(set(parts.tolist())) == 20
    a = Attributes()
    a.look(pa.record_batch({"n": np.arange(20)}))
    assert [p.describe(0, int(k), a) for k in parts] == [f"n {i}" for i in range(20)]


def test_texts_are_hashed():
    a, p = Attributes(), Partitions(d=4)
    values = a.look(pa.record_batch({"k": [f"w{i % 40}" for i in range(400)]}))
    p.widen(values, a.category)
    parts = p.parts(values[:, 0], 0, True)
    assert set(parts.tolist()) == {0, 1, 2, 3}
    assert (parts[:40] == parts[40:80]).all()
    assert "w0" in p.describe(0, int(parts[0]), a)


def test_doubles_beyond_single_precision_are_infinite_without_a_warning():
    random = np.random.default_rng(1)
    signs = random.choice([-1.0, 1.0], 200)
    rows = pa.record_batch({"vast": 1.7e308 * signs, "large": np.arange(200) * 1e300 + signs})
    a = Attributes()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        values = a.look(rows)
    assert (values[:, 0] == np.inf * signs).all()
    assert a.usable.tolist() == [True, False]
