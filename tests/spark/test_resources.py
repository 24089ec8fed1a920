"""A full disk under Spark's own state store: loud, and once there is room the query goes on where it was."""

from __future__ import annotations

import os
import subprocess

import pytest
from tests.spark import joinshapes
from tests.spark.joinshapes import SHAPES
from tests.spark.test_sql_faults import CHAIN, finish, rows_of, start


@pytest.fixture
def small_disk(tmp_path):
    """A file system of its own for the checkpoint, and how to give it another size."""
    folder = tmp_path / "check"
    folder.mkdir()

    def resize(size: str, how: str = "remount,") -> None:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"{how}size={size}", "tmpfs", str(folder)], check=True)

    resize("192k", "")
    yield resize
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.skipif(os.getuid() != 0, reason="mounting a file system needs root")
def test_a_full_disk_under_sparks_own_store(spark, tmp_path, small_disk):
    joinshapes.write(tmp_path / "in", files=6)
    process = start(tmp_path, CHAIN, 2, "auto")
    out, err = process.communicate(timeout=280)
    assert process.returncode != 0
    assert "No space left on device" in out + err
    small_disk("64m")
    finish(start(tmp_path, CHAIN, 2, "auto"))
    assert rows_of(spark, tmp_path) == joinshapes.answer(SHAPES[CHAIN])
