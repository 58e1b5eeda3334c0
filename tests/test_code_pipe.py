"""The pipe with a model in an environment whose actions are code (`code_pad.py`): blocks of several
lines stay as they came."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import msgspec
from competent_model import FENCE
from scripted_server import ScriptedServer

from coevolve.records import Exploration, Task

PAD = f"{sys.executable} {Path(__file__).with_name('code_pad.py')}"
MODEL = ["--env", PAD]
CODE = (
    "for word in ['{0}', '{0}']:\n    if word:\n\n"
    "\twrite(word)  # ``` is no fence here\n    # the end"
)
WORDS = ("milk", "tea")


def coder(request):
    """Writes two blocks, makes a task of each, and solves a task by what its words say."""
    first, turns = request["messages"][0]["content"], len(request["messages"]) // 2
    if first.startswith("You turn"):
        return json.dumps({"tasks": list(tasks(first))})
    said = re.findall(
        r"Please write (\w+) twice", "\n".join(str(m["content"]) for m in request["messages"])
    )
    words = said if said and not first.startswith("You explore") else WORDS
    return (
        f"So:\n```python\n{CODE.format(words[turns])}\n```\n"
        if turns < len(words)
        else "That is all."
    )


def tasks(prompt):
    """One of the first step, and one of the second composed anew; both in the code of the
    transcript."""
    lines = next(
        text for _, text in FENCE.findall(prompt) if text.startswith('{"step"')
    ).splitlines()
    codes = [json.loads(line)["code"] for line in lines]
    for code, action in ((codes[0], {"step": 0}), (codes[1], {"step": None, "code": codes[1]})):
        word = re.search(r"\['(\w+)'", code)[1]
        turns = [{"query": f"Please write {word} twice.", "solution": [action]}]
        yield {"exploration": 0, "turns": turns, "guideline": "Write it.", "confidence": 0.9}


def test_code_goes_through_the_pipe_as_it_is(coevolve, tmp_path):
    """Explored, abstracted, validated and solved by an agent; the code of every task is the
    model's, character by character."""
    e, c, v = (tmp_path / f"{name}.jsonl" for name in "ecv")
    with ScriptedServer(coder) as server:
        at = [*MODEL, "--base-url", server.url, "--journal", tmp_path / "journal"]
        coevolve("explore", "--mode", "curious", "--episodes", "1", "--model", "wise", *at, "-o", e)
        coevolve("abstract", e, "--model", "wise", *at, "-o", c)
        coevolve("validate", c, "--model", "wise", "--samples", "2", *at, "-o", v)
    (explored,) = (
        msgspec.json.decode(line, type=Exploration) for line in e.read_bytes().splitlines()
    )
    assert [step.action for step in explored.steps] == [CODE.format(word) for word in WORDS]
    found = [msgspec.json.decode(line, type=Task) for line in v.read_bytes().splitlines()]
    assert [task.solution for task in found] == [[[CODE.format(word)]] for word in WORDS]
    assert [task.author.composed for task in found] == [0, 1]
    assert [(task.difficulty.successes, task.difficulty.trials) for task in found] == [(2, 2)] * 2
