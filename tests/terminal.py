"""A command on a terminal of its own, as a user sees it: what it shows is kept, and it ends when the test does."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess


class Terminal:
    """A running command; `shown` is all that it wrote, without colours."""

    def __init__(self, command):
        self._parent, child = pty.openpty()
        self.process = subprocess.Popen(
            command, stdin=child, stdout=child, stderr=child, start_new_session=True,
            env=os.environ | {"TERM": "xterm-256color", "COLUMNS": "120", "LINES": "60"},
        )  # fmt: skip
        os.close(child)
        self._written = b""

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self._parent)

    def read(self, seconds):
        """Wait for more; False when the command has ended."""
        try:
            if select.select([self._parent], [], [], seconds)[0]:
                self._written += os.read(self._parent, 65536)
        except OSError:
            return False
        return True

    @property
    def shown(self):
        return re.sub(r"\x1b\[[0-9;]*m", "", self._written.decode(errors="replace"))
