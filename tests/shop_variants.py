"""The shop list with one thing changed, as a worker: `python shop_variants.py NAME`."""

import itertools
import json
import os
import sys
import time

import shop_list

TICKS = itertools.count()
PLAIN_ANSWER = shop_list.answer


def described(**changes):
    return lambda request, sessions: PLAIN_ANSWER(request, sessions) | (changes if request["op"] == "describe" else {})


def tools(change):
    return [change(dict(tool)) for tool in shop_list.TOOLS]


def wordless(tool):
    tool.pop("language", None)
    return tool


def checked(tool):
    if tool["name"] == "price":
        language = tool["language"] | {"do": ["tell me the price of {item}"]}
        return tool | {"checked": True, "language": language}
    return tool


def graded(**verdict):
    return lambda request, sessions: verdict if request["op"] == "evaluate" else PLAIN_ANSWER(request, sessions)


def ticking(request, sessions):
    """Observations that no two sessions share."""
    result = PLAIN_ANSWER(request, sessions)
    for one in (one for steps in result.get("results", []) for one in steps):
        one["observation"] = json.dumps({"tick": next(TICKS)})
    return result


def slow(request, sessions):
    if any(action["tool"] == "pay" for step in request.get("steps", []) for action in step["actions"]):
        time.sleep(60)
    return PLAIN_ANSWER(request, sessions)


def dying(request, sessions):
    if request["op"] == "evaluate" and "milk" in json.dumps(request["task"]):
        os._exit(3)
    return PLAIN_ANSWER(request, sessions)


def stillborn(request, sessions):
    if request["op"] == "open":
        os._exit(3)
    return PLAIN_ANSWER(request, sessions)


VARIANTS = {
    "wordless": described(tools=tools(wordless)),
    "hollow": described(harmless=[{"tool": "price", "arguments": {"item": "tea"}}]),
    "talkative": described(tools=tools(checked), max_goals=3),
    "lenient": graded(success=True, score=1.0),
    "dense": graded(success=False, score=0.0, progress=0.4),
    "ticking": ticking,
    "slow": slow,
    "dying": dying,
    "stillborn": stillborn,
}

if __name__ == "__main__":
    shop_list.answer = VARIANTS[sys.argv[1]]
    shop_list.main({})
