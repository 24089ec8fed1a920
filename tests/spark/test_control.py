"""Control files: replaced at once, merged, unreadable ones ignored, one for each query."""

from __future__ import annotations

from thalweg.spark.control import Control


def test_orders_are_merged_and_read_back(tmp_path):
    control = Control(str(tmp_path), "a query: with / odd (names)")
    assert control.read() == {}
    control.write(frozen=[1, 0])
    control.write(learned={"order": [0, 1]})
    assert Control(str(tmp_path), "a query: with / odd (names)").read() == {
        "frozen": [1, 0],
        "learned": {"order": [0, 1]},
    }
    assert len(list(tmp_path.iterdir())) == 1


def test_queries_that_differ_late_do_not_share_a_file(tmp_path):
    one, two = Control(str(tmp_path), "x" * 300 + "1"), Control(str(tmp_path), "x" * 300 + "2")
    one.write(frozen=[0])
    assert two.read() == {}


def test_a_broken_file_is_no_order(tmp_path):
    control = Control(str(tmp_path), "q")
    control.path.write_text("{half")
    assert control.read() == {}
