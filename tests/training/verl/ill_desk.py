"""The desk, with a grader that fails at every Nth grading (argument): what training then masks must
not count.
"""

import itertools
import json
import sys

from relayed_desk import relay


def main():
    every, gradings = int(sys.argv[1]), itertools.count(1)

    def answer(line):
        request = json.loads(line)
        if request["op"] != "evaluate" or next(gradings) % every:
            return None
        error = {"kind": "internal", "message": "the grader is ill"}
        return json.dumps({"id": request["id"], "error": error}).encode() + b"\n"

    relay(answer)


if __name__ == "__main__":
    main()
