"""A worker for the tests, on the real protocol loop: a small store, and tools that do whatever a
tool should not."""

import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from coevolve.environments.workers.serve import BadRequest, serve

TOOLS = (
    "set get add sleep allocate exit exit_once die_later shout fail spawn nan huge leave corrupt "
    "environment hang_once"
).split()


def digest(state: dict) -> str:
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()[:8]


class Strange:
    def describe(self):
        if "no-describe" in sys.argv:
            raise BadRequest("data file questions.json was changed")
        schema = {"type": "object", "properties": {}}
        tools = [{"name": name, "description": name, "parameters": schema} for name in TOOLS]
        return {"name": "strange", "version": "1", "tools": tools, "splits": {"train": 2}}

    def tasks(self, split):
        if split != "train":
            raise BadRequest("no such split")
        solution = [[{"tool": "set", "arguments": {"key": "a", "value": 1}}]]
        tasks = [
            {
                "kind": "set",
                "query": [f"make it {n}"],
                "solution": solution,
                "start": {"config": {"n": n}},
            }
            for n in range(2)
        ]
        return tasks

    def start(self, seed, apps):
        if apps and "nowhere" in apps:
            raise BadRequest("no app called nowhere")
        return {"config": {"n": len(seed)}}

    def open(self, start):
        config = start.get("config") or {}
        if "exit" in config:
            os._exit(config["exit"])
        state = dict(config)
        return state, {"state": digest(state), "tools": TOOLS}

    def step(self, state, turn, action):
        arguments = action["arguments"]
        method = getattr(self, action["tool"], None) if action["tool"] in TOOLS else None
        if method is None:
            return {"observation": "no such tool", "error": "unknown_tool", "state": digest(state)}
        before = dict(state)
        result = method(state, **arguments) or {}
        effects = [
            {"entity": "store", "key": k, "field": "", "op": "set", "value": v}
            for k, v in state.items()
            if before.get(k) != v
        ]
        return {
            "observation": f"{action['tool']} on turn {turn}",
            "effects": effects,
            "state": digest(state),
            **result,
        }

    def evaluate(self, state, task):
        if "exit" in task["tags"]:
            os._exit(9)
        return {
            "success": state.get("a") == 1,
            "score": float(state.get("a") == 1),
            "reason": json.dumps(state, sort_keys=True),
        }

    def set(self, state, key, value):
        state[key] = value

    def add(self, state, key):
        state[key] = state.get(key, 0) + 1
        return {"observation": str(state[key])}

    def get(self, state, key):
        return {"observation": json.dumps(state.get(key))}

    def sleep(self, state, seconds, marker=os.devnull):
        Path(marker).touch()
        time.sleep(seconds)

    def allocate(self, state, mb):
        state["block"] = str(b"x" * (mb << 20))[:1]
        block = bytearray(mb << 20)
        block[:: 1 << 12] = b"x" * len(block[:: 1 << 12])
        time.sleep(600)

    def exit(self, state, code):
        os._exit(code)

    def exit_once(self, state, marker):
        self._first(marker, lambda: os._exit(3))

    def hang_once(self, state, marker):
        self._first(marker, lambda: time.sleep(600))

    def _first(self, marker, act):
        if not os.path.exists(marker):
            Path(marker).touch()
            act()

    def die_later(self, state, marker):
        self._first(marker, threading.Timer(0.01, os._exit, [4]).start)

    def shout(self, state):
        print('{"id": 99, "result": {}}', flush=True)
        os.system("echo from a child")
        return {"observation": sys.stdin.read()}

    def fail(self, state):
        raise RuntimeError("broken tool")

    def leave(self, state):
        sys.exit(3)

    def corrupt(self, state):
        return {
            "observation": "the state is broken",
            "error": "corrupt_state",
            "fatal": "corrupt_state",
        }

    def spawn(self, state):
        return {"observation": str(subprocess.Popen(["sleep", "600"]).pid)}

    def nan(self, state):
        state["x"] = float("nan")
        return {"observation": "inf \ud800", "state": "s"}

    def huge(self, state):
        return {"observation": "x" * (70 << 20)}

    def environment(self, state, name):
        return {"observation": str(os.environ.get(name)) if name else str(os.getpid())}


if __name__ == "__main__":
    serve(Strange())
