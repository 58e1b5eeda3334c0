"""The child as a process: started, found again, ended with every process of its own and no other.

The child lives in a session of its own. That it lives is known by a lock which it holds from its
first moment on (the driver opens it and hands it over), so neither a stale file nor a pid that was
given away can be taken for it. Its processes, Ray's too, are known by an environment variable with
the run's directory (`files.MARK`). Processes on other nodes belong to the Ray cluster that the
child had joined; Ray ends them when the child is gone.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from coevolve.errors import Partial
from coevolve.training.verl.files import MARK, Child, VerlFiles, VerlJob, read, write
from coevolve.training.verl.overrides import environment

POLL = 0.2
GRACE = 30.0  # Seconds between SIGTERM, which lets Ray take its leave, and SIGKILL
GUARD = "workers/guard.py"
"""These end an environment's workers after their owner's death: they are given the time."""
ATTEMPT = "---- attempt "  # How the log of each start begins
COMMAND = (sys.executable, "-m", "coevolve.training.verl.main")


def start(files: VerlFiles, job: VerlJob, command: tuple[str, ...]) -> subprocess.Popen:
    """Starts the child; RUN/verl/job.json is written. Raises Partial where one lives."""
    variables = {**os.environ, **environment(job), "PYTHONUNBUFFERED": "1"}
    for old in (files.error, files.heartbeat, files.stop):
        old.unlink(missing_ok=True)
    with _locked(files) as lock, open(files.log, "ab") as log:
        log.write(f"{ATTEMPT}{job.attempt}\n".encode())
        log.flush()
        process = subprocess.Popen(
            [*command, str(files.run)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=variables,
            start_new_session=True,
            pass_fds=[lock.fileno()],
        )
        write(files.child, Child(process.pid, job.attempt))
    return process


@contextlib.contextmanager
def _locked(files: VerlFiles) -> Iterator[IO[bytes]]:
    with open(files.lock, "ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Partial(f"{files.run}: its trainer is running already") from None
        yield lock


def alive(files: VerlFiles) -> bool:
    """Whether the run's child lives, whoever started it."""
    if not files.lock.exists():
        return False
    try:
        with _locked(files):
            return False
    except Partial:
        return True


def processes(files: VerlFiles) -> dict[int, str]:
    """All processes of the run's child on this machine: id and command line."""
    mark = f"{MARK}={files.run}".encode()
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
                found[int(entry.name)] = line.decode(errors="replace")
    found.pop(os.getpid(), None)
    return found


def terminate(files: VerlFiles, grace: float = GRACE) -> None:
    """Ends the child and all its processes. A second interruption skips the grace."""
    child = read(files.child, Child)
    try:
        if child and alive(files):
            _signal(child.pid, signal.SIGTERM)
            until(lambda: not alive(files), grace)
    finally:
        if child and alive(files):
            with contextlib.suppress(OSError):
                os.killpg(child.pid, signal.SIGKILL)
        for attempt in range(50):
            left = processes(files)
            if not left and not alive(files):
                break
            for pid, line in left.items():
                if attempt > 20 or GUARD not in line:
                    _signal(pid, signal.SIGKILL)
            time.sleep(0.1)


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def until(done: Callable[[], bool], seconds: float) -> bool:
    """Waits for it; False where it did not come."""
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL)
    return True
