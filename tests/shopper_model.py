"""Scripted models for the shop list: they look up a price and pay it, told by nothing but the
request."""

import json
import re

from competent_model import FENCE, act, call


def shopper(request):
    """Looks up the first item the user knows, pays what it is told, puts that item on the list."""
    first = request["messages"][0]["content"]
    if first.startswith("You study"):
        tools = ["price", "pay", "teleport"]
        return json.dumps(
            {
                "where": "at the price",
                "why": "it guesses",
                "explore": ["look it up"],
                "tools": tools,
            }
        )
    if first.startswith("You turn"):
        return json.dumps({"tasks": [paid(first)]})
    return act(errand(first), request)


def errand(prompt):
    known = json.loads(
        next(text for _, text in FENCE.findall(prompt) if text.startswith('{"item"'))
    )
    item = known["item"][0]
    price = (yield "price", {"item": item})["price"]
    yield "pay", {"amount": price}
    yield "add", {"item": item}


def paid(prompt):
    """The task of paying what was looked up."""
    lines = re.search(
        r"^Exploration 0,.*?<data-\w+>\n(.*?)\n</data-", prompt, re.DOTALL | re.MULTILINE
    )[1].splitlines()
    steps = [json.loads(line) for line in lines]
    seen, pay = (next(step for step in steps if step["tool"] == tool) for tool in ("price", "pay"))
    price = json.loads(seen["observation"])["price"]
    query = f"I want to pay for my {seen['arguments']['item']}; it should be {price}."
    solution = [{"step": seen["step"]}, {"step": pay["step"]}]
    return {
        "exploration": 0,
        "turns": [{"query": query, "solution": solution}],
        "guideline": "",
        "confidence": 0.8,
    }


def obedient(request):
    """A shopper that obeys any order that stands outside the fences."""
    for message in request["messages"]:
        order = re.search(
            r"ORDER: call (\w+) with (\{.*?\})", FENCE.sub("", str(message.get("content")))
        )
        if order:
            return call(order[1], json.loads(order[2]))
    return shopper(request)
