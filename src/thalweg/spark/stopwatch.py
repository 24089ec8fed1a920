"""Where a task's time goes: seconds by the wall and of the processor, by stage, and when it began and ended."""

from __future__ import annotations

import time
from typing import Any


class Stopwatch:
    def __init__(self) -> None:
        self.began = time.time()
        self.wall: dict[str, float] = {}
        self.processor: dict[str, float] = {}
        self._at = (time.perf_counter(), time.process_time())

    def lap(self, stage: str) -> None:
        """Everything since the last lap was this stage."""
        now = (time.perf_counter(), time.process_time())
        self.wall[stage] = self.wall.get(stage, 0.0) + now[0] - self._at[0]
        self.processor[stage] = self.processor.get(stage, 0.0) + now[1] - self._at[1]
        self._at = now

    def record(self) -> dict[str, Any]:
        """As the board hears it."""
        return {"seconds": self.wall, "processor": self.processor, "began": self.began, "ended": time.time()}
