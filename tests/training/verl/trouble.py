"""An environment for tests of the verl child: a list of items, with tools that hang and crash,
starts that cannot be opened and graders that fail, each by name; `count` tells how many sessions
are open.
"""

import json
import os
import sys
import time

ITEM = {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}
TOOLS = [
    {"name": "add", "description": "Put an item on the list", "parameters": ITEM},
    {
        "name": "hang",
        "description": "Never answer",
        "parameters": {"type": "object", "properties": {}},
    },
    {"name": "crash", "description": "Die", "parameters": {"type": "object", "properties": {}}},
    {
        "name": "count",
        "description": "Count sessions",
        "parameters": {"type": "object", "properties": {}},
    },
]
ITEMS = ["tea", "bread", "milk"]


class Trouble(Exception):
    """The infrastructure's, not the policy's."""


def step(sessions, name, action):
    session = sessions[name]
    if action["tool"] == "count":
        return {"observation": str(len(sessions)), "state": str(session)}
    if action["tool"] == "hang":
        time.sleep(60)
    if action["tool"] == "crash":
        os._exit(1)
    item = action["arguments"].get("item")
    if item not in ITEMS:
        return {
            "observation": f"no such item: {item}",
            "error": "bad_argument",
            "state": str(session),
        }
    session.append(item)
    return {"observation": json.dumps({"ok": len(session)}), "state": str(session)}


def grade(session, task):
    if task["start"]["name"] == "ill grader":
        raise Trouble("the grader is ill")
    wanted = [action["arguments"]["item"] for turn in task["solution"] for action in turn]
    return {
        "success": session == wanted,
        "score": float(session == wanted),
        "progress": len(session) / 4,
    }


def answer(request, sessions):
    op, name = request["op"], request.get("session")
    if op == "describe":
        return {"name": "trouble", "version": "1", "tools": TOOLS}
    if op == "open":
        if request["start"]["name"] == "closed":
            raise Trouble("the start cannot be opened")
        if request["start"]["name"] == "slow":
            time.sleep(1.5)
        sessions[name] = []
        return {"state": "[]"}
    if op == "step":
        return {
            "results": [
                [step(sessions, s["session"], a) for a in s["actions"]] for s in request["steps"]
            ]
        }
    if op == "evaluate":
        return grade(sessions[name], request["task"])
    if op == "close":
        sessions.pop(name, None)
    return {}


def main():
    sessions = {}
    for line in sys.stdin:
        request = json.loads(line)
        try:
            reply = {"result": answer(request, sessions)}
        except Trouble as error:
            reply = {"error": {"kind": "internal", "message": str(error)}}
        print(json.dumps({"id": request["id"], **reply}), flush=True)


if __name__ == "__main__":
    main()
