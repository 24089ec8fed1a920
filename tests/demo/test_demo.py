"""`thalweg demo`, run as a user runs it: plain lines into a pipe, the live view on a terminal, Ctrl-C in between.

Both run the smallest size; one run serves all checks of what is told.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.terminal import Terminal

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
COMMAND = [sys.executable, "-m", "thalweg.cli", "demo", "--tiny"]


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What a whole run prints without a terminal, and the picture it draws."""
    picture = tmp_path_factory.mktemp("demo") / "live.svg"
    done = subprocess.run([*COMMAND, "--picture", picture], capture_output=True, text=True, timeout=500,
                          env=os.environ | {"COLUMNS": "120"})  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return done, picture.read_text()


def test_plain_lines(told):
    done, _ = told
    assert re.search(r"^flights  batch 1  .* rows/s  \w+ to \w+", done.stdout, re.M)
    assert re.search(r"^intrusions  batch 3  2,000 rows .*exfiltration", done.stdout, re.M)
    assert "\x1b[" not in done.stdout
    assert done.stderr == ""


def test_the_summary_compares_both_parts(told):
    done, _ = told
    rows = re.findall(
        r"predicate calls\W+([\d,]+)\W+([\d,]+)\W+([\d.]+) x fewer\W+yes, checked: ([\d,]+) rows", done.stdout
    )
    calls = [[int(n.replace(",", "")) for n in (r[0], r[1], r[3])] for r in rows]
    assert len(calls) == 2
    assert all(spark > ours > 0 and answers > 0 for spark, ours, answers in calls)
    assert calls[1][0] == 8_000 * 6
    assert "rows of state, at most" in done.stdout


def test_each_part_leaves_a_report(told):
    done, _ = told
    pages = [Path(p) for p in re.findall(r"^report: (.*\.html)$", done.stdout, re.M)]
    assert [p.stem for p in pages] == ["thalweg-demo-flights", "thalweg-demo-intrusions"]
    assert all("<svg" in p.read_text() for p in pages)


def test_the_picture_shows_the_live_view_and_loads_nothing(told):
    _, picture = told
    shown = re.sub(r"&#160;", " ", re.sub(r"<[^>]*>", "", picture))
    for words in ("pass rate", "calls saved", "probe work", "state", "that the windows need", "high_entropy", "dark"):
        assert words in shown
    assert "url(http" not in picture


@pytest.mark.long
def test_a_terminal_shows_the_live_view_and_ctrl_c_ends_it():
    deadline = time.monotonic() + 400
    with Terminal([*COMMAND, "--only", "intrusions"]) as terminal:
        while time.monotonic() < deadline and "calls saved" not in terminal.shown and terminal.read(1):
            pass
        assert re.search(r"running +batch \d", terminal.shown), terminal.shown[-2000:]
        assert "high_entropy" in terminal.shown
        assert "calls saved" in terminal.shown, terminal.shown[-2000:]
        os.killpg(terminal.process.pid, signal.SIGINT)
        while time.monotonic() < deadline and terminal.read(1):
            pass
        assert terminal.process.wait(60) == 130
        assert "stopped" in terminal.shown
        assert "Traceback" not in terminal.shown
