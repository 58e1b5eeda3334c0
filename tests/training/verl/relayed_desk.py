"""The desk behind a hand that may hold a request back, or answer it itself."""

import subprocess
import sys
from collections.abc import Callable

from coevolve.environments.workers import launch

DESK = launch.command(sys.executable, "desk.worker")


def relay(answer: Callable[[bytes], bytes | None]) -> None:
    """Gives each line to the desk for which `answer` has no reply of its own."""
    with subprocess.Popen(DESK, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as desk:
        for line in sys.stdin.buffer:
            reply = answer(line)
            if reply is None:
                desk.stdin.write(line)
                desk.stdin.flush()
                reply = desk.stdout.readline()
            sys.stdout.buffer.write(reply)
            sys.stdout.buffer.flush()
        desk.stdin.close()
