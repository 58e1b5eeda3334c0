"""The desk, whose actions never come back while a file (argument) exists: the watchdog's matter."""

import sys
import time
from pathlib import Path

from relayed_desk import relay


def main():
    flag = Path(sys.argv[1])

    def wait(line):
        while b'"op":"step"' in line and flag.exists():
            time.sleep(0.1)

    relay(wait)


if __name__ == "__main__":
    main()
