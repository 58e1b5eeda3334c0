"""The desk, whose actions never come back while a file (argument) exists: the watchdog's matter."""

import subprocess
import sys
import time
from pathlib import Path

import coevolve.environments

DESK = Path(coevolve.environments.__file__).parent / "workers" / "desk.py"


def main():
    flag = Path(sys.argv[1])
    with subprocess.Popen([sys.executable, str(DESK)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as desk:
        for line in sys.stdin.buffer:
            while b'"op":"step"' in line and flag.exists():
                time.sleep(0.1)
            desk.stdin.write(line)
            desk.stdin.flush()
            sys.stdout.buffer.write(desk.stdout.readline())
            sys.stdout.buffer.flush()
        desk.stdin.close()


if __name__ == "__main__":
    main()
