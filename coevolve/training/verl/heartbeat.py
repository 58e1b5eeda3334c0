"""The child's sign of life: RUN/verl/heartbeat.json, replaced every few seconds by a thread.

`progress` moves when a phase begins, and when the iteration's episode files have grown: an episode
has ended. It stands still when verl hangs, however lively this thread is.
"""

from __future__ import annotations

import threading
import time

from coevolve import jsonl
from coevolve.errors import WriteFailed
from coevolve.training.verl.files import Heartbeat, VerlFiles, write

SECONDS = 2.0  # Seconds between two signs of life


class HeartbeatWriter:
    """A context manager. `pid` is the child's, which Ray's processes are not."""

    def __init__(self, files: VerlFiles, pid: int):
        self._files, self._pid = files, pid
        self._now = ("starting", 0, 0)
        self._phases, self._grown = 0, 0
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

    def __enter__(self) -> HeartbeatWriter:
        self.write()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def phase(self, name: str, iteration: int, step: int) -> None:
        """Something new begins; `step` counts the steps that are done."""
        with self._lock:
            if iteration != self._now[1]:
                self._phases += self._grown
            self._now = (name, iteration, step)
            self._phases += 1
        self.write()

    def write(self) -> None:
        with self._lock:
            phase, iteration, step = self._now
            episodes = self._files.episodes(iteration).glob("*.jsonl")
            self._grown = sum(file.stat().st_size for file in episodes)  # bytes
            progress = self._phases + self._grown
            beat = Heartbeat(self._pid, phase, iteration, step, progress, time.time())
            write(self._files.heartbeat, beat)

    def _beat(self) -> None:
        while not self._ended.wait(SECONDS):
            try:
                self.write()
            except (OSError, WriteFailed) as error:
                jsonl.warn(f"no heartbeat can be written: {error}")
