"""The desk, with a grader that fails at every Nth grading (argument): what training then masks must not count."""

import itertools
import json
import subprocess
import sys
from pathlib import Path

import coevolve.environments

DESK = Path(coevolve.environments.__file__).parent / "workers" / "desk.py"


def main():
    every, gradings = int(sys.argv[1]), itertools.count(1)
    with subprocess.Popen([sys.executable, str(DESK)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as desk:
        for line in sys.stdin.buffer:
            request = json.loads(line)
            if request["op"] == "evaluate" and next(gradings) % every == 0:
                reply = {"id": request["id"], "error": {"kind": "internal", "message": "the grader is ill"}}
                print(json.dumps(reply), flush=True)
                continue
            desk.stdin.write(line)
            desk.stdin.flush()
            sys.stdout.buffer.write(desk.stdout.readline())
            sys.stdout.buffer.flush()
        desk.stdin.close()


if __name__ == "__main__":
    main()
