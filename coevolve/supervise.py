"""Runs a command that ends with its parent: `python3 -IS supervise.py GRACE COMMAND [ARGUMENT]...`,
with a pipe as stdin.

The command runs in a process group of its own until it ends, the parent of this process does, or
stdin does: whoever holds the other end of the pipe (a program, a script, ssh, srun) may die in any
way, kill -9 and a lost connection included. The group then gets SIGTERM, and SIGKILL when the
command has ended or GRACE seconds have passed. SIGTERM, SIGHUP or SIGINT to this process do the
same, and a second one cuts the grace short. The exit code is the command's, 128 + N for signal N.

It is one file of the standard library, for scripts that run where nothing of the toolkit is
installed. Give -I, or the modules beside it come before the standard library's.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
from typing import NoReturn

POLL_SECONDS = 0.2


def main(grace: float, command: list[str]) -> int:
    parent = os.getppid()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, _leave)
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        # The parent is looked at, too: a process that it started may hold the pipe open.
        while process.poll() is None and os.getppid() == parent:
            if select.select([0], [], [], POLL_SECONDS)[0] and not os.read(0, 1):
                break
    finally:
        _end(process, grace)
    return 128 - process.returncode if process.returncode < 0 else process.returncode


def _leave(number: int, _frame: object) -> NoReturn:
    sys.exit(128 + number)


def _end(process: subprocess.Popen, grace: float) -> None:
    try:
        _signal(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(grace)
    finally:
        _signal(process.pid, signal.SIGKILL)
        process.wait()


def _signal(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))
