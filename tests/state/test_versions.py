"""State in files: what batches, repeated, killed and cleaned in every way, leave for the next one."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from thalweg.errors import CheckpointError
from thalweg.state import versions
from thalweg.state.versions import Versions


def contents(store: Versions) -> dict[str, bytes]:
    return {k[0]: bytes(v[0]) for k, v in store.iterator()}


def step(folder: Path, batch: int, *, commit: bool = True, **parts: bytes | None) -> dict[str, bytes]:
    """One batch that writes these parts, and removes those that are None."""
    store = Versions(folder, batch, retain=5)
    for name, content in parts.items():
        if content is None:
            store.removeKey((name,))
        else:
            store.updateValue((name,), (content,))
    found = contents(store)
    if commit:
        store.commit()
    return found


def test_a_batch_reads_what_the_one_before_it_left(tmp_path: Path) -> None:
    assert not Versions(tmp_path, 0).exists()
    step(tmp_path, 0, a=b"one", b=b"two")
    step(tmp_path, 1, a=b"three")
    assert step(tmp_path, 2, b=None) == {"a": b"three"}
    assert contents(Versions(tmp_path, 2)) == {"a": b"three", "b": b"two"}, "version 1 is as it was"
    kept = Versions(tmp_path, 3)
    assert kept.getValue(("a",)) is not None
    assert kept.getValue(("b",)) is None
    step(tmp_path, 3)
    assert contents(Versions(tmp_path, 4)) == {"a": b"three"}, "a batch that changes nothing has a version too"


def test_any_history_of_attempts_gives_the_state_of_the_batches_that_count(tmp_path: Path) -> None:
    """Attempts are abandoned before or after they commit, and repeated with other contents of the same meaning."""
    seed = random.randrange(1 << 30)
    print("seed", seed)
    draw = random.Random(seed)
    model: dict[int, dict[str, bytes]] = {-1: {}}
    batch = 0
    while batch < 60:
        if batch and draw.random() < 0.1:  # an older checkpoint is restored, whose batches go another way
            batch = max(0, batch - draw.randrange(1, 5))
        now = dict(model[batch - 1])
        store = Versions(tmp_path, batch, retain=10)
        rival = Versions(tmp_path, batch, retain=10)  # a speculative copy, or a second driver
        assert contents(store) == now
        for name in draw.sample("abcdef", draw.randrange(4)):
            if name in now and draw.random() < 0.4:
                store.removeKey((name,))
                rival.removeKey((name,))
                del now[name]
            else:
                now[name] = os.urandom(draw.randrange(200))
                store.updateValue((name,), (now[name],))
                rival.updateValue((name,), (now[name],))
        fate = draw.random()
        if fate < 0.15:
            continue  # killed before it wrote anything
        if fate < 0.3:
            rival.commit()
        store.commit()
        if 0.3 <= fate < 0.45:
            rival.commit()  # the copy comes last
        if fate > 0.9:
            continue  # the task was done, but the batch is repeated, perhaps with other rows
        model[batch] = now
        batch += 1
    assert contents(Versions(tmp_path, batch)) == model[batch - 1]


def test_a_writer_that_dies_on_the_way_leaves_the_version_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step(tmp_path, 0, a=b"one")
    for steps in range(3):  # no file, a file without its name, a file without a manifest
        done = 0

        def dying(source: Path, target: Path, steps: int = steps) -> None:
            nonlocal done
            if done == steps:
                raise KeyboardInterrupt
            done += 1
            os.replace(source, target)

        with monkeypatch.context() as patched:
            patched.setattr(Path, "replace", dying)
            try:
                step(tmp_path, 1, a=b"two")
            except KeyboardInterrupt:
                assert steps < 2
                with pytest.raises(CheckpointError):
                    Versions(tmp_path, 2)
        assert contents(Versions(tmp_path, 1)) == {"a": b"one"}
    assert contents(Versions(tmp_path, 2)) == {"a": b"two"}


def test_a_version_that_is_missing_is_an_error_that_says_where(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no version at all"):
        Versions(tmp_path / "elsewhere", 3)
    step(tmp_path, 0, a=b"one")
    with pytest.raises(CheckpointError, match=r"4\.json; versions 0 to 0 are there"):
        Versions(tmp_path, 5)
    for path in tmp_path.glob("*.arrow"):
        path.unlink()
    with pytest.raises(CheckpointError, match="not there"):
        contents(Versions(tmp_path, 1))
    (tmp_path / "0.json").write_text(json.dumps({"format": 99, "parts": {}}))
    with pytest.raises(CheckpointError, match="format 99"):
        Versions(tmp_path, 1)


def test_a_torn_file_is_refused_by_name_however_much_of_it_is_left(tmp_path: Path) -> None:
    step(tmp_path, 0, a=b"first part", b=b"second part")
    (data,) = tmp_path.glob("*.arrow")
    manifest, whole, listed = tmp_path / "0.json", data.read_bytes(), (tmp_path / "0.json").read_bytes()
    for left in range(len(whole)):
        data.write_bytes(whole[:left])
        with pytest.raises(CheckpointError, match=rf"damaged: .*{data.name} ends at byte {left}"):
            contents(Versions(tmp_path, 1))
    data.write_bytes(whole)
    for left in range(len(listed)):
        manifest.write_bytes(listed[:left])
        with pytest.raises(CheckpointError, match=r"damaged: .*0\.json is no manifest"):
            Versions(tmp_path, 1)
    for wrong in (b"[]", b'{"parts": 3}', b'{"parts": {"a": [1]}}'):
        manifest.write_bytes(wrong)
        with pytest.raises(CheckpointError, match="is no manifest"):
            Versions(tmp_path, 1)
    manifest.write_bytes(listed)
    assert contents(Versions(tmp_path, 1)) == {"a": b"first part", "b": b"second part"}


FULL = """
import resource, sys
from pathlib import Path
from thalweg.state.versions import Versions
folder, limit = Path(sys.argv[1]), int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
store = Versions(folder, 1)
store.updateValue(("a",), (b"x" * 100_000,))
store.commit()
"""


def test_no_room_is_loud_leaves_no_scraps_and_the_batch_is_done_again_when_there_is_room(tmp_path: Path) -> None:
    """The kernel refuses the write in the middle of a file, as it does on a full disk."""
    step(tmp_path, 0, a=b"one")
    before = sorted(p.name for p in tmp_path.iterdir())
    command = [sys.executable, "-c", FULL, str(tmp_path)]
    full = subprocess.run([*command, "50000"], capture_output=True, text=True)
    assert full.returncode != 0
    assert "OSError" in full.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == before
    assert contents(Versions(tmp_path, 1)) == {"a": b"one"}
    subprocess.run([*command, "200000"], check=True)
    assert contents(Versions(tmp_path, 2)) == {"a": b"x" * 100_000}


def test_old_versions_go_and_living_parts_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "YOUNG", -1.0)
    step(tmp_path, 0, old=b"from the first batch", changing=b"0")
    for batch in range(1, 41):
        step(tmp_path, batch, changing=str(batch).encode())
    kept = sorted(versions.batches(tmp_path))
    assert kept == list(range(35, 41)), "five before the last"
    assert contents(Versions(tmp_path, 41)) == {"old": b"from the first batch", "changing": b"40"}
    assert len(list(tmp_path.glob("*.arrow"))) == len(kept) + 1


def test_what_an_attempt_has_not_named_yet_is_not_cleaned(tmp_path: Path) -> None:
    step(tmp_path, 0, a=b"one")
    (tmp_path / "named-by-its-content.arrow").write_bytes(b"slow")
    versions.clean(tmp_path, 0)
    assert (tmp_path / "named-by-its-content.arrow").read_bytes() == b"slow"
    assert contents(Versions(tmp_path, 1)) == {"a": b"one"}


def test_a_person_reads_the_state_with_pyarrow(tmp_path: Path) -> None:
    sink = pa.BufferOutputStream()
    table = pa.table({"ts": [1, 2], "name": ["x", None]})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    step(tmp_path, 0, first=b"{}", rows=sink.getvalue().to_pybytes())
    file, at, size = json.loads((tmp_path / "0.json").read_text())["parts"]["rows"]
    assert pa.ipc.open_stream((tmp_path / file).read_bytes()[at : at + size]).read_all().equals(table)
