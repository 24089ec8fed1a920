"""The demo's stream: its predicates see what they claim to see, and the phases really differ."""

from __future__ import annotations

from zlib import crc32

import numpy as np
import pyarrow.parquet as pq

from thalweg.demo import intrusion
from thalweg.lab.simulate import best_order


def test_predicates():
    assert intrusion.unknown_source("8.8.8.8")
    assert not intrusion.unknown_source("10.0.3.7")
    assert intrusion.shellcode("a " + "\\x90" * 5 + " /bin/sh")
    assert not intrusion.shellcode("\\x90 /bin/sh")
    assert intrusion.beacon("x TASK id=00ff00ff y")
    assert not intrusion.beacon("TASK id=00ff")
    assert intrusion.known_signature("....z3r0day!")
    assert not intrusion.known_signature("z3r0day")
    assert intrusion.high_entropy("".join(map(chr, range(33, 127))))
    assert not intrusion.high_entropy("aaaa bbbb")
    assert not intrusion.high_entropy("")
    assert intrusion.bad_checksum("hello 00000000")
    assert not intrusion.bad_checksum(f"hello {crc32(b'hello '):08x}")


def test_the_best_order_changes_between_phases(tmp_path):
    stream = intrusion.write(tmp_path, files=4, rows=2000, seed=3)
    assert stream.phases == intrusion.PHASES
    orders = set()
    for file in sorted(tmp_path.glob("*.parquet")):
        columns = pq.read_table(file).to_pydict()
        bits = np.array([[p(v) for v in columns[p.__code__.co_varnames[0]]] for p in intrusion.PREDICATES], np.bool_).T
        assert 0.002 < bits.all(axis=1).mean() < 0.2
        orders.add(best_order(bits, [4, 1, 1, 12, 5, 12])[0])
    assert len(orders) >= 3


def test_the_stream_is_repeatable(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    intrusion.write(one, 2, 300)
    intrusion.write(two, 2, 300)
    assert pq.read_table(one).equals(pq.read_table(two))
