"""Ctrl-C and SIGTERM as a wish that is met at the next safe point.

PySpark's own handler talks to the JVM from inside the signal, in the middle of whatever call was under way; that garbles
the connection and prints tracebacks. Here the signal only leaves a mark, and the loop that waits looks at it. A second
Ctrl-C ends the process at once.
"""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self


class Stop:
    """While inside, Ctrl-C and SIGTERM are marked; `check` raises KeyboardInterrupt if one came.

    >>> with Stop() as stop:
    ...     stop.check()
    ...     signal.raise_signal(signal.SIGTERM)
    ...     stop.wished
    True
    """

    def __init__(self) -> None:
        self.wished = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._mark)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def check(self) -> None:
        if self.wished:
            raise KeyboardInterrupt

    def _mark(self, number: int, frame: FrameType | None) -> None:
        if self.wished:
            os._exit(128 + number)
        self.wished = True
