"""Kills a pool's workers when the pool's process is gone, however it went (kill -9 included).

Run as ``python guard.py PARENT_PID``. stdin: a line ``+PID`` for each worker's process group,
``-PID`` when it has ended. At the end of stdin, or when the parent is no longer PARENT_PID, every
listed group is killed. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys

POLL_SECONDS = 1.0


def main(parent: int) -> None:
    # a worker alone could not do this: it does not see the end of its stdin while an action runs
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    groups: set[int] = set()
    rest = b""
    while os.getppid() == parent:
        if not select.select([0], [], [], POLL_SECONDS)[0]:
            continue
        data = os.read(0, 1 << 16)
        if not data:
            break
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            (groups.add if line[:1] == b"+" else groups.discard)(int(line[1:]))
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    main(int(sys.argv[1]))
