"""Runs a command until it ends, its owner does, or standard input does; then nothing of its process group is left.

Run as ``python leash.py OWNER_PID GRACE COMMAND [ARGUMENT]...`` with a pipe as stdin, in a session of its own. The owner may die in
any way, kill -9 included: the command's group gets SIGTERM, and SIGKILL when the command has ended or GRACE seconds have passed.
SIGTERM to the leash does the same, a second one cuts the grace short. The exit code is the command's, 128 + N for signal N.
Standard library only.
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


def main(owner: int, grace: float, command: list[str]) -> int:
    signal.signal(signal.SIGTERM, _leave)
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        while process.poll() is None and os.getppid() == owner:
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
    sys.exit(main(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]))
