"""The desk behind a hand that may hold a request back, or answer it itself."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import coevolve.environments

DESK = Path(coevolve.environments.__file__).parent / "workers" / "desk.py"


def relay(answer: Callable[[bytes], bytes | None]) -> None:
    """Gives each line to the desk for which `answer` has no reply of its own."""
    with subprocess.Popen([sys.executable, str(DESK)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as desk:
        for line in sys.stdin.buffer:
            reply = answer(line)
            if reply is None:
                desk.stdin.write(line)
                desk.stdin.flush()
                reply = desk.stdout.readline()
            sys.stdout.buffer.write(reply)
            sys.stdout.buffer.flush()
        desk.stdin.close()
