"""Watches the child while it trains an iteration.

`TrainerWatch.until_ready` gives the iteration's READY.json, or raises:

| what happened | error |
|---|---|
| the child ended with an error of ours | that error in one line, with its exit code |
| it died or stood still where the disk is full, or its log says so | WriteFailed |
| it died | CoevolveError that quotes its log |
| it ended without training the iteration | CoevolveError |
| somebody told it to stop | Partial |
| no progress for `stall_timeout` seconds | Partial, after all its processes were ended |
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from coevolve import jsonl
from coevolve.errors import CoevolveError, Exit, Partial, WriteFailed
from coevolve.training.verl import child_process
from coevolve.training.verl.files import Child, Heartbeat, Ready, TrainerFailure, VerlFiles, read

TAIL = 1 << 16  # Bytes of the log that are searched
QUOTED_LINES, QUOTED_LENGTH = 8, 300  # Lines of the log that are shown, and characters of a line
FULL_BYTES, FULL_SHARE = 64 << 20, 0.01
"""A file system with less than both left is full: a failed checkpoint leaves a little."""


class TrainerFailed(CoevolveError):
    """The child's own error in one line, with its exit code; the log has all of it."""

    def __init__(self, failure: TrainerFailure, log: Path):
        first, *rest = failure.message.strip().splitlines() or [""]
        if rest:
            ends = (line.strip()[:QUOTED_LENGTH] for line in (first, rest[-1]))
            first = f"{' … '.join(ends)} (log: {log})"
        super().__init__(first)
        known = {int(code): code for code in Exit}
        self.exit = known.get(failure.exit, Exit.FAILED)


class TrainerGaveUp(CoevolveError):
    """The child had waited for tasks long enough when they came."""


class TrainerWatch:
    """Watches one iteration. `process`: None where another driver started the child."""

    def __init__(
        self,
        files: VerlFiles,
        iteration: int,
        process: subprocess.Popen | None,
        stall_timeout: float,
        on_step: Callable[[dict[str, Any]], None] | None = None,
    ):
        self._files, self._iteration, self._process = files, iteration, process
        self._stall, self._on_step = stall_timeout, on_step
        self._read = files.metrics.stat().st_size if files.metrics.exists() else 0
        self._beat: Heartbeat | None = None
        self._moved = time.monotonic()

    def until_ready(self) -> Ready:
        """Blocks until the iteration is trained and its policy served."""
        while True:
            living = self._lives()
            self._report()
            if ready := read(self._files.ready(self._iteration), Ready):
                return ready
            self._read_heartbeat()
            if not living:
                raise self._why_it_ended()
            if time.monotonic() - self._moved > self._stall:
                self._give_up()
            time.sleep(child_process.POLL)

    def until_ended(self) -> None:
        """Blocks until the child, which was told to, has ended; helps where it does not."""
        seconds = min(child_process.GRACE, self._stall)
        if not child_process.until(lambda: not self._lives(), seconds):
            child_process.terminate(self._files)
        child_process.terminate(self._files, 0)

    def _lives(self) -> bool:
        gone = self._process and self._process.poll() is not None
        return not gone and child_process.alive(self._files)

    def _read_heartbeat(self) -> None:
        beat, child = read(self._files.heartbeat, Heartbeat), read(self._files.child, Child)
        if beat and child and beat.pid == child.pid:
            if self._beat is None or beat.progress != self._beat.progress:
                self._moved = time.monotonic()
            self._beat = beat

    def _report(self) -> None:
        """Hands on what the metrics file has grown by, whole lines only."""
        if not self._on_step or not self._files.metrics.exists():
            return
        with open(self._files.metrics, "rb") as stream:
            stream.seek(self._read)
            lines = stream.read().split(b"\n")
        self._read += sum(len(line) + 1 for line in lines[:-1])
        for line in filter(None, lines[:-1]):
            with contextlib.suppress(msgspec.MsgspecError):  # what a killed child left of a line
                self._on_step(msgspec.json.decode(line))

    def _give_up(self) -> None:
        where, lines = self._where(), log_tail(self._files)  # before its end adds to both
        child_process.terminate(self._files)
        for line in lines:
            jsonl.warn(f"child.log: {line}")
        full = no_space(self._files)
        kind = WriteFailed if full else Partial
        raise kind(
            f"{full}the trainer made no progress for {self._stall:g} s ({where}) and was ended "
            "with all its processes; the same command again goes on from the last checkpoint "
            f"(log: {self._files.log})"
        )

    def _where(self) -> str:
        if not self._beat:
            return "in phase starting"
        return (
            f"in phase {self._beat.phase} of iteration {self._iteration}, {self._beat.step} steps "
            "done"
        )

    def _why_it_ended(self) -> CoevolveError:
        code = self._process.wait() if self._process else None
        child_process.terminate(self._files, 0)
        if failure := read(self._files.error, TrainerFailure):
            return TrainerFailed(failure, self._files.log)
        if self._files.stop.exists():
            return Partial(
                f"the trainer was told to stop before iteration {self._iteration} was finished; a "
                "rerun goes on"
            )
        if code is None and self._beat and self._beat.phase == "waiting":
            return TrainerGaveUp("the trainer had waited long enough")
        if code == 0:
            return CoevolveError(
                f"the trainer ended without training iteration {self._iteration} (it had resumed "
                f"at its end, or was given fewer steps than it has done); see {self._files.log}"
            )
        how, why = "died", last_error(self._files)
        if code is not None and code < 0:
            how, why = f"was killed by signal {-code}", f"the last of its log: {why}"
        full = no_space(self._files)
        kind = WriteFailed if full else CoevolveError
        return kind(
            f"{full}the trainer {how} ({self._where()}); {why}; the same command again goes on "
            f"from the last checkpoint (log: {self._files.log})"
        )


def no_space(files: VerlFiles) -> str:
    """The beginning of a message where the disk is full (which cuts off what would say so)."""
    disk = shutil.disk_usage(files.root)
    if disk.free < min(FULL_BYTES, FULL_SHARE * disk.total):
        return (
            f"no space on the disk of {files.run} ({disk.free / 1e6:.1f} of {disk.total / 1e6:.0f} "
            "MB are free): "
        )
    if any(_NO_SPACE.search(line) for line in log_tail(files, 1000)):
        return "no space where the trainer wrote: "
    return ""


def log_tail(files: VerlFiles, lines: int = QUOTED_LINES) -> list[str]:
    """The last lines that say something, of this attempt."""
    try:
        with open(files.log, "rb") as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - TAIL))
            text = stream.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return []
    own = re.split(r"[\r\n]", _COLOUR.sub("", text).rpartition(child_process.ATTEMPT)[2])
    return [line.strip()[:QUOTED_LENGTH] for line in own[1:] if line.strip()][-lines:]


_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_PREFIX = r"(?:\([^)]*pid=[^)]*\) )?"
_NAMES = r"(?:\w+\.)*\w*(?:Error|Exception|Interrupt|OutOfMemory\w*)\b"
_ERROR = re.compile(rf"{_PREFIX}((?:{_NAMES}|(?:ERROR|FATAL|Fatal)\b|E\d{{4}} ).*)")
_NO_SPACE = re.compile(r"No space left on device|Disk quota exceeded")
_BAR = re.compile(r"\d+%\|")


def last_error(files: VerlFiles) -> str:
    """The last line of the log that looks like an error, else the last that is no bar."""
    lines = [line for line in log_tail(files, 1000) if not _BAR.search(line)]
    errors = [found[1] for line in lines if (found := _ERROR.match(line))]
    return (errors or lines or ["its log says nothing"])[-1]
