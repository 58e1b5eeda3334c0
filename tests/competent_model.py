"""A model that knows its way about `desk` and `bfcl`, for the scripted server: a pure function of
the request.

It explores by small plans (generators over the observations that the request holds), writes tasks
from the transcripts that the abstraction prompt holds, reflects, and solves the requests that it
knows the words of. All values in its answers come out of the request.
"""

from __future__ import annotations

import json
import re

FENCE = re.compile(r"<(data-\w+)>\n(.*?)\n</\1>", re.DOTALL)


def competent(request):
    """The reply to any prompt of the package, and to a bare request of a user."""
    first = request["messages"][0]["content"]
    if first.startswith("You study an agent"):
        return reflect(first)
    if first.startswith("You turn explorations"):
        return json.dumps({"tasks": list(tasks(first))})
    if first.startswith("You explore"):
        return act(explore(first, names(request)), request)
    return act(solve(first, names(request)), request)


def careless(seed_share):
    """Solves requests only for some seeds, so that a task has successes and failures; competent
    otherwise."""

    def answer(request):
        known = request["messages"][0]["content"].startswith("You ")
        return (
            competent(request)
            if known or request["seed"] % 100 < seed_share
            else "I would rather not."
        )

    return answer


def names(request):
    """Our names of the offered tools → the server's."""
    return {
        t["function"]["name"].replace("__", "."): t["function"]["name"]
        for t in request.get("tools") or []
    }


def call(name, arguments):
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"content": "", "tool_calls": [{"id": "c", "type": "function", "function": function}]}


def act(plan, request):
    """Runs the plan over the observations of the request; its next call, or the end when it is done
    or has nothing to go on."""
    results = [read(m["content"]) for m in request["messages"][1:] if m["role"] == "tool"]
    try:
        wanted = next(plan)
        for result in results:
            wanted = plan.send(result)
    except (StopIteration, KeyError):
        return "That is all."
    tool, arguments = wanted
    return call(names(request).get(tool, tool), arguments)


class Result(dict):
    changed = failed = False


def read(content):
    """An observation as the explorer shows it (fenced), or as an agent sees it."""
    fenced = FENCE.search(content)
    text = fenced[2] if fenced else content
    value = json.loads(text) if text[:1] in "{[" else text
    result = Result(value if isinstance(value, dict) else {"": value})
    outside = FENCE.sub("", content)
    result.changed, result.failed = (
        "The state changed." in outside,
        "The action failed" in outside or "error" in result,
    )
    return result


def explore(prompt, tools):
    known = json.loads(next(text for _, text in FENCE.findall(prompt) if text.startswith("{")))
    aim = re.search(r"^Tools to use: (.*)$", prompt, re.MULTILINE)
    plans = {
        "ls": files,
        "mean": average,
        "get_symbol_by_name": watch,
        "estimate_distance": distance,
    }
    fitting = [plan for tool, plan in plans.items() if tool in tools]
    if fitting:
        return fitting[len(prompt) % len(fitting)](known)
    apps = [name.split(".")[0] for name in (aim[1].split(", ") if aim else [])]
    readable = [key.split(".")[0] for key in known if key.endswith(".read.owner")]
    return notes(known, next((app for app in [*apps, *readable] if app in readable), "nowhere"))


def notes(known, app):
    """desk: tells a note, then sets another record to it, whatever convention the app has."""
    owner, other = known[f"{app}.read.owner"][:2]
    seen = yield f"{app}.read", {"owner": owner}
    yield "desk.answer", {"text": seen["text"]}
    found = yield f"{app}.find", {"name": other}
    for opener in ("", "open", "check", "sync"):
        for given in ({"name": other}, {"id": found["id"]}):
            for saver in ("save", "push", "seal"):
                if opener:
                    yield f"{app}.{opener}", {}
                result = yield f"{app}.set", {**given, "text": seen["text"]}
                if result.changed:
                    return
                if result.failed:
                    break
                if (yield f"{app}.{saver}", {}).changed:
                    return


def files(known):
    listing = yield "ls", {"a": True}
    folder = known["mkdir.dir_name"][0]
    yield "mkdir", {"dir_name": folder}
    plain = [name for name in listing["current_directory_content"] if "." in name.strip(".")]
    if plain:
        yield "cp", {"source": plain[0], "destination": folder}


def average(known):
    result = yield "mean", {"numbers": known["numbers"][0]}
    yield "round_number", {"number": result["result"], "decimal_places": 1}


def watch(known):
    if not (yield "trading_get_login_status", {})["status"]:
        yield "trading_login", {p: known[f"trading_login.{p}"][0] for p in ("username", "password")}
    listed = (yield "get_watchlist", {})["watchlist"]
    for name in known["get_symbol_by_name.name"]:
        symbol = (yield "get_symbol_by_name", {"name": name})["symbol"]
        if symbol not in listed:
            yield "add_to_watchlist", {"stock": symbol}
            return


def distance(known):
    here, there = known["get_zipcode_based_on_city.city"][:2]
    a = yield "get_zipcode_based_on_city", {"city": here}
    b = yield "get_zipcode_based_on_city", {"city": there}
    yield "estimate_distance", {"cityA": a["zipcode"], "cityB": b["zipcode"]}


def reflect(prompt):
    tools = re.findall(r'"tool": "([\w.]+)"', prompt)
    answer = {
        "where": "after the first look-up",
        "why": "it does not save",
        "explore": ["save after each change"],
    }
    return json.dumps({**answer, "tools": list(dict.fromkeys(tools))[:5]})


def tasks(prompt):
    """A task per exploration, of what its transcript shows."""
    for number, text in re.findall(
        r"^Exploration (\d+),.*?<data-\w+>\n(.*?)\n</data-", prompt, re.DOTALL | re.MULTILINE
    ):
        steps = [json.loads(line) for line in text.splitlines()]
        for turns in written([step for step in steps if "step" in step]):
            yield {
                "exploration": int(number),
                "turns": turns,
                "guideline": "Look first, then do it.",
                "confidence": 0.9,
            }


def turn(query, *steps):
    return {"query": query, "solution": [{"step": step["step"]} for step in steps]}


def written(steps):
    by_tool = {}
    for step in steps:
        if "error" not in step:
            by_tool.setdefault(step["tool"].split(".")[-1], step)
    if "answer" in by_tool:
        seen = by_tool["read"]
        app, owner = seen["tool"].split(".")[0], seen["arguments"]["owner"]
        yield [turn(f"I would like to know the {app} note of {owner}.", seen, by_tool["answer"])]
        yield from changed(steps, by_tool, app, owner)
    if "cp" in by_tool:
        made, copied = by_tool["mkdir"], by_tool["cp"]
        folder, source = made["arguments"]["dir_name"], copied["arguments"]["source"]
        yield [
            turn(f"I need a folder called {folder} here.", made),
            turn(f"Please copy my {source} into {folder}.", copied),
        ]
    if "round_number" in by_tool:
        numbers = ", ".join(map(str, by_tool["mean"]["arguments"]["numbers"]))
        query = f"What is the average of {numbers}, rounded to 1 decimal place?"
        yield [turn(query, by_tool["mean"], by_tool["round_number"])]
    if "add_to_watchlist" in by_tool:
        login = by_tool.get("trading_login")
        words = (
            "I log in as {username} with {password}. ".format(**login["arguments"]) if login else ""
        )
        found = next(s for s in reversed(steps) if s["tool"] == "get_symbol_by_name")
        query = f"{words}Please put {found['arguments']['name']} on my watchlist."
        yield [turn(query, *([login] if login else []), found, by_tool["add_to_watchlist"])]
    if "estimate_distance" in by_tool:
        ends = [step for step in steps if step["tool"] == "get_zipcode_based_on_city"]
        here, there = (step["arguments"]["city"] for step in ends)
        yield [
            turn(
                f"How far do I have to drive from {here} to {there}?",
                *ends,
                by_tool["estimate_distance"],
            )
        ]


def changed(steps, by_tool, app, owner):
    last = next(
        (
            place
            for place, step in enumerate(steps)
            if step.get("changed") and "answer" not in step["tool"]
        ),
        None,
    )
    if last is None:
        return
    place = max(i for i in range(last + 1) if steps[i]["tool"] == f"{app}.set")
    needed = [by_tool["read"]]
    if "id" in steps[place]["arguments"]:
        needed.append(by_tool["find"])
    if steps[place - 1]["tool"].split(".")[1] in ("open", "check", "sync"):
        needed.append(steps[place - 1])
    needed += [steps[i] for i in sorted({place, last})]
    name = by_tool["find"]["arguments"]["name"]
    yield [turn(f"Please set {name} in {app} to what the {app} note of {owner} says.", *needed)]


def solve(query, tools):
    """What it can do from the words alone."""
    if found := re.search(r"the (\w+) note of (\w+)\.", query):
        seen = yield f"{found[1]}.read", {"owner": found[2]}
        yield "desk.answer", {"text": seen["text"]}
    elif found := re.search(r"average of ([\d., -]+?), rounded to (\d)", query):
        result = yield "mean", {"numbers": [json.loads(text) for text in found[1].split(", ")]}
        yield "round_number", {"number": result["result"], "decimal_places": int(found[2])}
