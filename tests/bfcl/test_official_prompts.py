"""What a policy is shown equals what BFCL's own handlers send, byte for byte, over whole
conversations.

The official handlers run in their venv, with their own inference loop and executor; only the server
is replaced, by one that notes what would be sent and answers with a script: the reference's calls,
two a reply, then a word that hands the turn back. Ours is the episode as the drivers play it, with
the same script. No text of the benchmark is kept in the repository.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path

import pytest

from coevolve.agents.actions.replies import to_message
from coevolve.agents.drivers import advance, finish_all, open_all
from coevolve.agents.episode import Episode, PolicyReply
from coevolve.agents.prompts.official import call_text
from coevolve.agents.prompts.styles import STYLES
from coevolve.bfcl import official
from coevolve.environments import install
from coevolve.environments.client import Pool
from coevolve.records import Call, Task

pytestmark = [pytest.mark.bfcl, pytest.mark.official]

CATEGORIES = ("base", "long_context", "miss_func", "miss_param")
NUMBERS = (0, 37, 63, 88, 121, 149, 167, 193)
"""Of each category: every main class, tasks with two classes in either order, one with an empty
turn."""


def qwen_fc(calls: list[Call], reply: int) -> dict:
    """Every third reply thinks first, so that reasoning in the history is compared, too."""
    text = "\n".join(
        f'<tool_call>\n{{"name": "{c.tool}", "arguments": {json.dumps(c.arguments)}}}\n</tool_call>'
        for c in calls
    )
    return {
        "role": "assistant",
        "content": (f"<think>\nlet me see {reply}\n</think>\n\n" if reply % 3 == 0 else "")
        + (text or "Done."),
    }


def openai(calls: list[Call], reply: int) -> dict:
    return to_message(calls) if calls else {"role": "assistant", "content": "Done."}


def prompting(calls: list[Call], reply: int) -> dict:
    return {
        "role": "assistant",
        "content": f"[{', '.join(map(call_text, calls))}]" if calls else "Done.",
    }


SCRIPTS = {"qwen-fc": qwen_fc, "openai": openai, "prompting": prompting}


def script(task: Task, style: str) -> list[dict]:
    """All replies of an episode, in order."""
    replies: list[dict] = []
    for turn in task.solution:
        for calls in [*([turn[i : i + 2] for i in range(0, len(turn), 2)]), []]:
            replies.append(SCRIPTS[style](calls, len(replies)))
    return replies


def shown(task: Task, pool: Pool, style: str, replies: list[dict]) -> list:
    """What the policy is shown before each reply."""
    told = STYLES[style]
    episode = Episode(task, pool.description.limits, tools=pool.tools, style=told)
    episode.tools_resent = told.render is None
    open_all([episode], pool)
    seen = []
    for message in replies:
        first, later = ([pool.tools[name] for name in names] for names in episode.offers())
        schemas = told.schemas(first, later)
        if told.render:
            seen.append(told.render(episode.messages, schemas))
        else:
            seen.append({"messages": [dict(m) for m in episode.messages], "tools": schemas})
        advance([(episode, PolicyReply(message))], pool)
    finish_all([episode], pool)
    assert episode.stop_reason == "done"
    return seen


def text(sent: str | dict) -> str:
    """A prompt, or a request as JSON; the order of keys inside a message is no part of it, that
    inside a tool is."""
    if isinstance(sent, str):
        return sent
    return json.dumps(sent["messages"], sort_keys=True) + json.dumps(sent["tools"])


def officially(requests: list[dict]) -> list[dict]:
    with tempfile.TemporaryDirectory() as folder:
        result = subprocess.run(
            [install.python(official.NAME), Path(__file__).with_name("official_prompts.py")],
            input="".join(json.dumps(request) + "\n" for request in requests),
            env=official.environment(Path(folder)),
            capture_output=True,
            text=True,
        )
    assert result.returncode == 0, result.stderr[-2000:]
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.mark.parametrize("category", CATEGORIES)
def test_whole_conversations_are_shown_alike(bfcl: Pool, category: str):
    """Qwen-FC text, OpenAI messages and tools, and the prompting messages, before every reply of
    eight tasks a category."""
    tasks = [task for i, task in enumerate(bfcl.tasks(category)) if i in NUMBERS]
    assert len(tasks) == len(NUMBERS)
    scripts = [{style: script(task, style) for style in SCRIPTS} for task in tasks]
    requests = [
        {
            "entry": task.start.name,
            "replies": {
                s: r if s == "openai" else [m["content"] for m in r] for s, r in replies.items()
            },
        }
        for task, replies in zip(tasks, scripts, strict=True)
    ]
    for task, replies, expected in zip(tasks, scripts, officially(requests), strict=True):
        for style in SCRIPTS:
            ours = shown(task, bfcl, style, replies[style])
            assert len(ours) == len(expected[style])
            for one, other in zip(ours, expected[style], strict=True):
                assert text(one) == text(other), (task.start.name, style)
