"""A shopping list as an environment of one's own: standard library only, one JSON object a line in,
one out."""

import json
import sys

PRICES = {"tea": 31, "bread": 24, "milk": 17}


def tool(name, description, parameter, kind, **language):
    schema = {"type": "object", "properties": {parameter: {"type": kind}}, "required": [parameter]}
    return {"name": name, "description": description, "parameters": schema, "language": language}


TOOLS = [
    tool(
        "add",
        "Put an item on the list",
        "item",
        "string",
        do=["put {item} on my list", "I need {item}"],
    ),
    tool(
        "price",
        "Look up the price of an item",
        "item",
        "string",
        refer={"price": "the price of {item}"},
    ),
    tool("pay", "Pay an amount", "amount", "integer", do=["pay {amount}"], lookup_only=["amount"]),
]


def step(rows, action):
    name, arguments, known = (
        action["tool"],
        action["arguments"],
        action["arguments"].get("item") in PRICES,
    )
    output, error, new = {"ok": True}, None, [[name, *arguments.values()]]
    if name == "price" and known:
        output, new = {"price": PRICES[arguments["item"]]}, []
    elif not (name == "pay" or name == "add" and known):
        output, error, new = {"error": "no such tool or item"}, "refused", []
    rows += new
    effects = [
        {"entity": "shop", "key": r[0], "field": "rows", "op": "add", "value": r[1:]} for r in new
    ]
    return {
        "observation": json.dumps(output),
        "error": error,
        "effects": effects,
        "state": json.dumps(rows),
    }


def answer(request, sessions):
    if request["op"] == "describe":
        return {"name": "shop-list", "version": "1", "tools": TOOLS}
    if request["op"] == "open":
        sessions[request["session"]] = []
        return {"values": {"item": sorted(PRICES)}, "state": "[]"}
    if request["op"] == "step":
        return {
            "results": [
                [step(sessions[s["session"]], a) for a in s["actions"]] for s in request["steps"]
            ]
        }
    if request["op"] == "evaluate":
        wanted = []
        for action in sum(request["task"]["solution"], []):
            step(wanted, action)
        success = sorted(map(str, wanted)) == sorted(map(str, sessions[request["session"]]))
        return {"success": success, "score": float(success)}
    return {"start": {"name": "default"}}


def main(sessions):
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps({"id": request["id"], "result": answer(request, sessions)}), flush=True)


if __name__ == "__main__":
    main({})
