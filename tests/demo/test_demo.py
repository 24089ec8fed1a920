"""`thalweg demo`, run as a user runs it: plain lines into a pipe, the live view on a terminal, Ctrl-C in between."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
COMMAND = [sys.executable, "-m", "thalweg.cli", "demo", "--quick"]


def test_plain_lines_and_the_verdict():
    done = subprocess.run(COMMAND, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "same rows: yes" in done.stdout
    assert re.search(r"batch +8/8 +exfiltration +128,000 rows", done.stdout)
    assert re.search(r"adopt: .*bad_checksum", done.stdout)
    fewer = float(re.search(r"([\d.]+) x fewer", done.stdout).group(1))
    assert fewer > 2
    assert "Traceback" not in done.stderr


def test_a_terminal_shows_the_live_view_and_ctrl_c_ends_it():
    parent, child = pty.openpty()
    process = subprocess.Popen(
        COMMAND, stdin=child, stdout=child, stderr=child, start_new_session=True,
        env=os.environ | {"TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40"},
    )  # fmt: skip
    os.close(child)
    seen = ""
    deadline = time.monotonic() + 300
    try:
        while time.monotonic() < deadline and not re.search(r"batch [1-9]", seen):
            if select.select([parent], [], [], 1)[0]:
                seen += os.read(parent, 65536).decode(errors="replace")
        assert re.search(r"batch [1-9]\d* of 8", seen), seen[-2000:]
        assert "high_entropy" in seen
        assert "calls saved" in seen
        os.killpg(process.pid, signal.SIGINT)
        while time.monotonic() < deadline:
            try:
                seen += os.read(parent, 65536).decode(errors="replace")
            except OSError:
                break
        assert process.wait(60) == 130
        assert "stopped" in seen
        assert "Traceback" not in seen
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
