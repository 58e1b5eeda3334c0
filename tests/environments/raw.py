"""A worker for the tests that knows nothing of the toolkit: standard library and its own loop, only
the ops that are required."""

import json
import os
import sys

mode = sys.argv[1]
state = {}
for line in sys.stdin:
    request = json.loads(line)
    op = request["op"]
    reply = {"id": request["id"]}
    if op == "describe":
        tools = [
            {"name": name, "description": "", "parameters": {"type": "object"}}
            for name in ("add", "odd")
        ]
        reply["result"] = {
            "name": "raw",
            "version": "1",
            "tools": tools,
            "protocol": 2 if mode == "future" else 1,
        }
    elif op == "open":
        state[request["session"]] = 0
        reply["result"] = {"state": "0"}
    elif op == "step":
        lists = []
        for entry in request["steps"]:
            results = []
            for action in entry["actions"]:
                state[entry["session"]] += 1
                stamp = f"{os.getpid()}" if mode == "unstable" else f"{state[entry['session']]}"
                results.append({"observation": stamp, "state": stamp})
                if action["tool"] == "odd":
                    if mode == "text":
                        print("Traceback (most recent call last):", flush=True)
                    elif mode == "id":
                        reply["id"] += 1
                    elif mode == "shape":
                        results[-1] = {"observation": 5}
                    elif mode == "short":
                        results.pop()
                    elif mode == "unstable":
                        os._exit(1)
            lists.append(results)
        reply["result"] = {"results": lists}
    elif op == "evaluate":
        reply["result"] = {"success": True, "score": 1.0}
    elif op == "close":
        reply["result"] = {}
    else:
        reply["error"] = {"kind": "unsupported", "message": f"no {op}"}
    print(json.dumps(reply), flush=True)
