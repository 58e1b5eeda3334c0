"""A worker for the tests of faults: `swamp` cannot be opened until the file named by an argument
exists, a `cliff` kills the worker.

Arguments: `swamp` = every start state is one, `toolless` = describes nothing, else a file.
"""

import json
import os
import sys

from coevolve.environments.workers.serve import serve

ITEM = {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}
WORD = sys.argv[1] if len(sys.argv) > 1 else "/nowhere/at/all"


class Frail:
    def describe(self):
        tools = (
            []
            if WORD == "toolless"
            else [{"name": "add", "description": "Add an item", "parameters": ITEM}]
        )
        return {"name": "frail", "version": "1", "tools": tools}

    def start(self, seed, apps):
        return {"config": {"place": "swamp" if WORD == "swamp" else seed}}

    def open(self, start):
        place = start["config"]["place"]
        if place.startswith("swamp") and not os.path.exists(WORD):
            raise RuntimeError("sank")
        if place.startswith("cliff"):
            print("\x1b[31mfell", file=sys.stderr, flush=True)
            os._exit(3)
        return [], {"state": "[]"}

    def step(self, state, turn, action):
        state.append(action["arguments"]["item"])
        effect = {
            "entity": "list",
            "key": str(len(state)),
            "field": "",
            "op": "add",
            "value": state[-1],
        }
        return {"observation": "ok", "state": json.dumps(state), "effects": [effect]}

    def evaluate(self, state, task):
        done = state == [
            action["arguments"]["item"] for turn in task["solution"] for action in turn
        ]
        return {"success": done, "score": float(done)}


if __name__ == "__main__":
    serve(Frail())
