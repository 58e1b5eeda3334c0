"""A small environment with demonstrations: lamps that are switched on by name. Argument `broken`:
its solutions fail; `bare`: it has no demonstrations.
"""

import json
import sys

NAMES = ["hall", "attic", "porch", "cellar", "kitchen", "stairs"]
MODE = sys.argv[1] if len(sys.argv) > 1 else ""
SESSIONS = {}


def task(number):
    name = NAMES[number % len(NAMES)]
    wanted = "moon" if MODE == "broken" else name
    calls = [{"tool": "lamp.light", "arguments": {"name": wanted}}]
    return {
        "kind": "lamp.light/given",
        "verifier": {"kind": "state"},
        "query": [f"light the {name}"],
        "solution": [calls],
        "start": {"config": {"number": number}},
    }


def step(session, actions):
    results = []
    for action in actions:
        name = action["arguments"].get("name")
        if action["tool"] == "lamp.light" and name in NAMES:
            SESSIONS[session].append(name)
            results.append({"observation": '{"lit":"' + name + '"}'})
        else:
            results.append({"observation": '{"error":"dark"}', "error": "dark"})
    return results


def answer(request):
    op = request["op"]
    if op == "describe":
        schema = {
            "type": "object",
            "properties": {"name": {"type": "string"}},
            "required": ["name"],
        }
        tool = {"name": "lamp.light", "description": "Lights a lamp.", "parameters": schema}
        splits = {} if MODE == "bare" else {"demos": 24, "dev": 6}
        return {"name": "lamps", "version": "1", "tools": [tool], "splits": splits}
    if op == "tasks":
        return {"tasks": [task(n) for n in range({"demos": 24, "dev": 6}[request["split"]])]}
    if op == "open":
        SESSIONS[request["session"]] = []
        return {}
    if op == "step":
        return {"results": [step(entry["session"], entry["actions"]) for entry in request["steps"]]}
    if op == "evaluate":
        wanted = [call["arguments"]["name"] for call in request["task"]["solution"][0]]
        success = SESSIONS[request["session"]] == wanted
        return {"success": success, "score": float(success)}
    del SESSIONS[request["session"]]
    return {}


for line in sys.stdin:
    request = json.loads(line)
    print(json.dumps({"id": request["id"], "result": answer(request)}), flush=True)
