"""A grocer's list as an environment for tests of policies. An argument names a file that gets a
letter per opened session,
each of which then takes a while."""

import json
import sys
import time

ITEM = {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}
AMOUNT = {"type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"]}
TOOLS = [
    {"name": "add", "description": "Put an item on the list", "parameters": ITEM},
    {"name": "price", "description": "Look up a price", "parameters": ITEM, "read_only": True},
    {"name": "pay", "description": "Pay an amount", "parameters": AMOUNT},
    {
        "name": "show",
        "description": "Show the list",
        "parameters": {"type": "object"},
        "read_only": True,
    },
]
for tool in TOOLS:  # a benchmark's own documents, as the official prompts show them
    tool["document"] = {name: tool[name] for name in ("name", "description", "parameters")}
PRICES = {"tea": 31, "bread": 24, "milk": 17}
COUNT = sys.argv[1] if len(sys.argv) > 1 else None


def step(state, action):
    tool, arguments = action.get("tool"), action.get("arguments", {})
    item = arguments.get("item")
    if tool in ("add", "price") and item not in PRICES:
        return {
            "observation": f"no such item: {item}",
            "error": "bad_argument",
            "state": json.dumps(state),
        }
    if tool == "add" and item not in state["list"]:
        state["list"].append(item)
    elif tool == "pay":
        state["paid"].append(arguments.get("amount"))
    output = {"price": {"price": PRICES.get(item)}, "show": state}.get(tool, {"ok": True})
    return {"observation": json.dumps(output), "state": json.dumps(state)}


def answer(request, sessions):
    op, name = request["op"], request.get("session")
    if op == "describe":
        return {
            "name": "grocer",
            "version": "1",
            "tools": TOOLS,
            "harmless": [{"tool": "show", "arguments": {}}],
        }
    if op == "open":
        if COUNT:
            with open(COUNT, "a") as file:
                file.write("x")
            time.sleep(0.002)
        sessions[name] = {"list": [], "paid": []}
        return {"values": {"item": sorted(PRICES)}, "state": json.dumps(sessions[name])}
    if op == "step":
        return {
            "results": [
                [step(sessions[s["session"]], action) for action in s["actions"]]
                for s in request["steps"]
            ]
        }
    if op == "evaluate":
        wanted, reached = {"list": [], "paid": []}, sessions[name]
        for action in (action for turn in request["task"]["solution"] for action in turn):
            step(wanted, action)
        done = all(sorted(wanted[part]) == sorted(reached[part]) for part in wanted)
        return {"success": done, "score": float(done)}
    return (
        {"start": {"name": "default"}} if op == "start" else {"tasks": []} if op == "tasks" else {}
    )


if __name__ == "__main__":
    SESSIONS = {}
    for line in sys.stdin:
        message = json.loads(line)
        print(json.dumps({"id": message["id"], "result": answer(message, SESSIONS)}), flush=True)
