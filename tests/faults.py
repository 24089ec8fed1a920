"""The fault matrix: what can go wrong, what is promised then, and the test that tries it.

`python -m tests.faults --run` runs the tests (with a word, only those whose fault contains it) and records what was
seen in faults.json; `python -m tests.faults --write` writes docs/reliability.md from that record.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parent.parent
RECORD = Path(__file__).with_suffix(".json")
PAGE = ROOT / "docs" / "reliability.md"


@dataclass(frozen=True)
class Fault:
    what: str
    promised: str
    test: str
    """As pytest names it."""


S = "tests/spark"
ONCE = "no row lost, none doubled"
MATRIX = [
    Fault("driver killed (kill -9), filters", ONCE, f"{S}/test_faults.py::test_killed_and_restarted"),
    Fault("driver killed twice, a task fails, a worker dies, join", ONCE,
          f"{S}/test_sql_faults.py::test_killed_with_a_failing_task_and_a_dying_worker"),
    Fault("driver killed twenty times, join", ONCE, f"{S}/test_sql_faults.py::test_killed_twenty_times"),
    Fault("driver killed while the state moves to other cells", ONCE,
          f"{S}/test_sql_faults.py::test_killed_while_the_state_moves_to_other_cells"),
    Fault("snapshot of state left by a killed batch", ONCE,
          f"{S}/test_sql_faults.py::test_the_snapshot_of_a_batch_that_was_not_committed_is_never_taken_up"),
    Fault("driver killed after the sink had written, then other cells", ONCE,
          f"{S}/test_sql_faults.py::test_a_batch_that_the_sink_had_written_is_not_run_again_by_another_cut"),
    Fault("killed batch of other cells (state in files)", ONCE,
          f"{S}/test_filemoves.py::test_what_a_killed_batch_of_another_cut_left_is_never_read"),
    Fault("state of two attempts at a batch", "refused by name", f"{S}/test_filemoves.py::test_state_of_two_attempts_is_refused"),
    Fault("worker killed in mid-batch", ONCE, f"{S}/test_faults.py::test_a_python_worker_killed_in_mid_batch"),
    Fault("executor killed", ONCE, f"{S}/test_sql_faults.py::test_an_executor_killed"),
    Fault("batch replayed after its output was written", "the same rows again",
          f"{S}/test_sql_faults.py::test_a_batch_replayed_after_its_output_was_written"),
    Fault("row from the far future", "left out and counted; no other row is late; a replay judges alike",
          f"{S}/test_times.py::test_a_row_from_the_future_makes_no_other_late_and_is_judged_alike_when_replayed"),
    Fault("flood of late rows", "an event, a line in explain, a metric and a warning",
          f"{S}/test_times.py::test_without_a_bound_the_flood_of_late_rows_is_an_event_a_line_a_metric_and_a_warning"),
    Fault("impossible time", "left out and counted; the query goes on",
          "tests/engine/test_gate.py::test_an_impossible_time_is_a_bad_row_and_no_reason_to_stop"),
    Fault("predicate that raises", "raised as tw.PredicateError, skipped, or kept with the reason, exactly once",
          f"{S}/test_bad_rows.py::test_a_join_writes_results_and_bad_rows_apart_exactly_once"),
    Fault("silent stream", "others go on after idle=", f"{S}/test_sql.py::test_a_silent_stream_does_not_hold_back_the_others"),
    Fault("other number of cells after a restart", "the state moves, exactly once",
          f"{S}/test_restart.py::test_the_state_moves_to_another_number_of_cells_and_is_checked_before"),
    Fault("changed query after a restart", "refused in one line, as tw.CheckpointError",
          f"{S}/test_restart.py::test_refused_by_name_where_the_query_is_awaited"),
    Fault("checkpoint of 0.1", "refused by name", f"{S}/test_moving.py::test_a_checkpoint_of_0_1_is_refused_by_name"),
    Fault("malformed control file", "ignored, with an event",
          f"{S}/test_control.py::test_a_malformed_file_is_no_order_and_says_so"),
    Fault("hostile control folder", "not used", f"{S}/test_control.py::test_only_a_folder_of_our_own_is_used"),
    Fault("link in place of the log", "not written through", f"{S}/test_told.py::test_the_log_is_not_written_through_a_link"),
    Fault("one name for two running queries", "refused by name", f"{S}/test_told.py::test_a_name_is_used_once_at_a_time"),
    Fault("reports of a long run", "totals exact, memory bounded",
          f"{S}/test_history.py::test_totals_stay_exact_when_reports_are_dropped"),
    Fault("two drivers on one checkpoint", "one is refused by name; no row doubled",
          f"{S}/test_two_drivers.py::test_one_of_two_drivers_is_refused_and_no_row_is_doubled"),
    Fault("broken listener, ours or a user's", "reports are lost, rows are not",
          f"{S}/test_listener.py::test_broken_listeners_cost_no_row"),
    Fault("torn state file (state in files)", "refused by name, wherever it is torn",
          "tests/state/test_versions.py::test_a_torn_file_is_refused_by_name_however_much_of_it_is_left"),
    Fault("no room for a state file (state in files)", "loud; the version before is whole; done again when there is room",
          "tests/state/test_versions.py::test_no_room_is_loud_leaves_no_scraps_and_the_batch_is_done_again_when_there_is_room"),
    Fault("state writer dies on the way (state in files)", "the version before is whole",
          "tests/state/test_versions.py::test_a_writer_that_dies_on_the_way_leaves_the_version_before"),
    Fault("hot key: half of all rows", "the same answer", "tests/engine/test_faults.py::test_a_hot_key"),
    Fault("burst: 100 times the rows", "the same answer",
          "tests/engine/test_faults.py::test_a_burst_of_a_hundred_times_the_rows"),
    Fault("clock that jumps by hours", "the same answer",
          "tests/engine/test_faults.py::test_a_clock_that_jumps_changes_no_answer"),
    Fault("full disk under Spark's own state store", "loud; the query goes on once there is room; " + ONCE,
          f"{S}/test_resources.py::test_a_full_disk_under_sparks_own_store"),
    Fault("2 GB of results: a text of 1 MB matched 2,600 times", "the same answer",
          f"{S}/test_bytes.py::test_two_gigabytes_of_results"),
    Fault("damaged record of what was learned", "ignored, with an event",
          f"{S}/test_control.py::test_a_damaged_record_of_what_was_learned_stops_no_query"),
    Fault("kernel cache that others can write to", "not used, with a line",
          "tests/test_first_use.py::test_a_cache_that_others_can_write_to_is_not_used"),
    Fault("password in an option", "shown nowhere", f"{S}/test_secrets.py::test_a_running_query_shows_no_password"),
]  # fmt: skip
KILLS = """`python -m tests.kills --count 200` kills drivers at random moments until that many are dead, and records each run
in tests/kills.json."""
UNTRIED = "out of memory, slow disks"


def run(word: str) -> None:
    """Run the tests of the faults whose names hold the word, one pytest for each file, and record what was seen."""
    chosen = [f for f in MATRIX if word in f.what]
    for file in dict.fromkeys(f.test.partition("::")[0] for f in reversed(chosen)):  # those with many kills come last
        faults = [f for f in chosen if f.test.startswith(f"{file}::")]
        with tempfile.NamedTemporaryFile(suffix=".xml") as told:
            command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "long or not long"]
            subprocess.run([*command, f"--junitxml={told.name}", *[f.test for f in faults]], cwd=ROOT)
            cases = list(xml.parse(told.name).iter("testcase"))
        record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
        for fault in faults:
            ours = [c for c in cases if str(c.get("name")).partition("[")[0] == fault.test.rpartition("::")[2]]
            held = bool(ours) and all(c.find(kind) is None for c in ours for kind in ("failure", "error", "skipped"))
            seen = "held" if held else "DID NOT HOLD"
            record[fault.what] = {"seen": seen, "on": f"{datetime.now(UTC):%Y-%m-%d}"}
            print(f"{fault.what}: {seen}", flush=True)
        RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")


def page() -> str:
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    lines = [
        "# Reliability", "",
        "What can go wrong, what is promised then, and what was seen when a test tried it. `python -m tests.faults --run`",
        "runs the tests and records the outcomes, `python -m tests.faults --write` writes this page.", "",
        "| fault | promised | seen | test |", "|---|---|---|---|",
    ]  # fmt: skip
    for f in MATRIX:
        seen = record.get(f.what)
        told = f"{seen['seen']} ({seen['on']})" if seen else "not run on this code"
        lines.append(f"| {f.what} | {f.promised} | {told} | `{f.test.rpartition('::')[2]}` |")
    lines += ["", KILLS]
    lines += ["", f"Not in the matrix, because no test here tries them: {UNTRIED}.", ""]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", nargs="?", const="", metavar="WORD")
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    if asked.run is not None:
        run(asked.run)
    if asked.write:
        PAGE.write_text(page())


if __name__ == "__main__":
    main()
