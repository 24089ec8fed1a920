"""Where a task's time goes: wall-clock and processor seconds by step, and when the task began and ended."""

from __future__ import annotations

import time

from thalweg.contract.report import Timing


class Stopwatch:
    def __init__(self) -> None:
        self.began = time.time()
        self.wall: dict[str, float] = {}
        self.processor: dict[str, float] = {}
        self._at = (time.perf_counter(), time.process_time())

    def lap(self, step: str) -> None:
        """Everything since the last lap was this step."""
        now = (time.perf_counter(), time.process_time())
        self.wall[step] = self.wall.get(step, 0.0) + now[0] - self._at[0]
        self.processor[step] = self.processor.get(step, 0.0) + now[1] - self._at[1]
        self._at = now

    def part(self, step: str, of: str, seconds: float) -> None:
        """Some seconds of a step belong to another one."""
        share = min(seconds / self.wall[of], 1.0) if self.wall[of] else 0.0
        for clock in (self.wall, self.processor) if share else ():
            taken = clock[of] * share
            clock[of] -= taken
            clock[step] = clock.get(step, 0.0) + taken

    def timing(self) -> Timing:
        return Timing(self.began, time.time(), self.wall, self.processor)
