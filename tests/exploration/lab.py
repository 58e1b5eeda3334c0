"""A small environment with hidden conventions, for the tests of exploration.

Run as a worker: `python lab.py [LOG] [WORD…]`. door.paint needs door.open right before and
door.keep right after; lamp.light takes the id that lamp.find tells, never the name; note.write
takes any text, lamp.look tells one. LOG gets a line per opened session.

Words: `flaky`: some start states cannot be opened; `broken`: none can; `deadly`: one tool ends the
worker; `hold=N`: from the N-th session on, opening one waits as long as the file LOG.hold is there.
"""

import hashlib
import json
import os
import sys
import time
from pathlib import Path

from coevolve.environments.workers.serve import serve

NAMES = ["hall", "attic", "cellar", "porch"]
TEXT = {"type": "string"}


def tool(name, parameters, required, **more):
    schema = {"type": "object", "properties": {p: TEXT for p in parameters}, "required": required}
    return {
        "name": name,
        "description": name,
        "app": name.split(".")[0],
        "parameters": schema,
        **more,
    }


ASKED, HELPER = {"language": {"do": ["do it"]}}, {"language": {}}
TOOLS = [
    tool("door.paint", ["name", "colour"], ["name", "colour"], **ASKED),
    tool("door.open", [], [], **HELPER),
    tool("door.wedge", [], [], **HELPER),
    tool("door.keep", [], [], **HELPER),
    tool("door.forget", [], [], **HELPER),
    tool("lamp.light", ["name", "id"], [], **ASKED),
    tool("lamp.find", ["name"], ["name"], read_only=True, **HELPER),
    tool("lamp.look", ["name"], ["name"], read_only=True, **HELPER),
    tool("note.write", ["text"], ["text"], **ASKED),
]
if "deadly" in sys.argv:
    TOOLS.append(tool("note.explode", [], [], **HELPER))


class Lab:
    def describe(self):
        return {"name": "lab", "version": "1", "tools": TOOLS, "limits": {"max_steps": 20}}

    def start(self, seed, apps):
        return {"config": {"seed": seed}}

    def open(self, start):
        number = hashlib.sha256(start["config"]["seed"].encode()).digest()[0]
        if "broken" in sys.argv or ("flaky" in sys.argv and number % 8 == 0):
            raise RuntimeError("no such room")
        for word in sys.argv:
            if word.startswith("hold="):
                hold(Path(sys.argv[1]), int(word.removeprefix("hold=")))
        if len(sys.argv) > 1:
            with Path(sys.argv[1]).open("a") as log:
                log.write(f"{start['config']['seed']}\n")
        names = sorted(NAMES, key=lambda name: hashlib.sha256(f"{name}{number}".encode()).digest())[
            :3
        ]
        session = {
            "ids": {name: f"L{number}{i}" for i, name in enumerate(names)},
            "last": "",
            "doors": {},
            "lit": [],
            "notes": [],
        }
        values = {"name": names, "door.paint.colour": ["teal", "ochre"], "text": ["milk", "bread"]}
        return session, {"values": values, "state": digest(session)}

    def step(self, session, turn, action):
        before = json.dumps([session["doors"], session["lit"], session["notes"]])
        out, error = run(session, action["tool"], action["arguments"])
        after = json.dumps([session["doors"], session["lit"], session["notes"]])
        changed = [
            {
                "entity": action["tool"].split(".")[0],
                "key": "all",
                "field": "all",
                "op": "set",
                "value": after,
            }
        ]
        return {
            "observation": json.dumps(out),
            "error": error,
            "effects": changed if after != before else [],
            "state": digest(session),
        }

    def evaluate(self, session, task):
        return {"success": False, "score": 0.0}


def hold(log, sessions):
    opened = len(log.read_text().splitlines()) if log.exists() else 0
    parent = os.getppid()
    while opened >= sessions and os.getppid() == parent and log.with_suffix(".hold").exists():
        time.sleep(0.01)
    # Checked last: whoever kills the parent takes the hold away at once.
    if os.getppid() != parent:
        os._exit(1)


def run(session, name, arguments):
    last, session["last"] = session["last"], name
    if name == "note.explode":
        os._exit(9)
    if name == "door.paint":
        session["wet"] = None
        if last != "door.open":
            return {"error": "stuck"}, "stuck"
        session["wet"] = arguments
    elif name == "door.keep" and last == "door.paint" and session["wet"]:
        session["doors"][session["wet"]["name"]] = session["wet"]["colour"]
    elif name == "lamp.light":
        if set(arguments) != {"id"}:
            return {"error": "bad argument"}, "bad_argument"
        if arguments["id"] not in session["ids"].values():
            return {"error": "no lamp"}, "not_found"
        session["lit"].append(arguments["id"])
    elif name == "lamp.find":
        return {"id": session["ids"][arguments["name"]]}, None
    elif name == "lamp.look":
        return {"text": f"{arguments['name']} is dusty"}, None
    elif name == "note.write":
        session["notes"].append(arguments["text"])
    return {"ok": True}, None


def digest(session):
    return hashlib.sha256(json.dumps(session, sort_keys=True).encode()).hexdigest()[:12]


if __name__ == "__main__":
    serve(Lab())
