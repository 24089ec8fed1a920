"""What a killed batch left in a checkpoint is removed where Arrow can do it, and never stops a start; without Spark."""

from __future__ import annotations

import logging

import pytest

from thalweg.spark.leftovers import MOVED, address, forget, opened


def test_a_local_folder_is_the_one_that_spark_writes(tmp_path):
    place = tmp_path / "a b%20"
    place.mkdir()
    for written in (str(place), f"file:{place}", f"file://{place}"):
        assert opened(written)[1] == str(place)


def test_remote_folders_are_named_as_arrow_names_them():
    assert address("s3a://bucket/a b%20c") == "s3://bucket/a%20b%2520c"
    assert address("abfss://box@host/a") == "abfss://box@host/a"


@pytest.mark.parametrize("folder", ["hdfs:/x", "dbfs:/x", "nothing://host/x"])
def test_what_can_not_be_listed_is_a_warning(folder, caplog):
    with caplog.at_level(logging.WARNING, "thalweg"):
        assert forget(folder, 3) == 0
    assert folder in caplog.text


def test_what_can_not_be_removed_is_a_warning(tmp_path, monkeypatch, caplog):
    from thalweg.spark.leftovers import Checkpoint

    def refused(self, after):
        raise PermissionError("read-only")

    monkeypatch.setattr(Checkpoint, "forget_snapshots", refused)
    with caplog.at_level(logging.WARNING, "thalweg"):
        assert forget(str(tmp_path), 3) == 0
    assert "read-only" in caplog.text


def test_moved_state_goes_once_it_was_taken_up(tmp_path):
    for batch in ("2", "3", "4"):
        (tmp_path / MOVED / batch).mkdir(parents=True)
    forget(str(tmp_path), 3)
    assert {p.name for p in (tmp_path / MOVED).iterdir()} == {"3", "4"}
