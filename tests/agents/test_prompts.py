"""Prompt styles: what a model is shown in real episodes, and tools that come in a later turn."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from scripted_server import ScriptedServer

import tiny_models
from coevolve.agents.drivers import LocalPolicy
from coevolve.agents.episode import Episode, PolicyReply
from coevolve.agents.prompts.styles import STYLES, style
from coevolve.agents.rollout import make_policy, rollouts
from coevolve.environments.client import Pool
from coevolve.environments.protocol import EpisodeLimits, Opened, Tool
from coevolve.errors import UsageError
from coevolve.models.options import ServiceOptions
from coevolve.models.service import Models
from coevolve.models.transformers_lm import LocalModel
from coevolve.records import Start, Task

SHOP = f"{sys.executable} {Path(__file__).parent.parent / 'grocer.py'}"
EMPTY = {"type": "object", "properties": {}}
TOOLS = {
    name: Tool(
        name,
        f"does {name}",
        EMPTY,
        document={"name": name, "description": f"does {name}", "parameters": EMPTY},
    )
    for name in ("look", "take")
}


@pytest.fixture(scope="module")
def pool():
    with Pool(SHOP) as pool:
        yield pool


def shopper(request):
    """A model of the prompting kind: it answers the last user message by a Python call list."""
    last = request["messages"][-1]["content"]
    item = next((i for i in tiny_models.ITEMS if i in last and not last.startswith("[")), None)
    return f"[add(item={item!r})]" if item else "all done"


def test_prompting_over_a_server(pool, tmp_path):
    """The system message holds the tools, calls are Python text, results one user message."""
    tasks = tiny_models.shop_tasks(SHOP, 3)
    with ScriptedServer(shopper) as server:
        with Models(
            "rollout", ServiceOptions(base_url=server.url, journal=str(tmp_path))
        ) as models:
            played = list(
                rollouts(tasks, make_policy("m", models=models, prompt="prompting"), pool)
            )
        requests = list(server.requests)
    assert all(r.success and r.stop_reason == "done" for r in played)
    assert not any("tools" in request for request in requests)
    system = requests[0]["messages"][0]
    assert (
        system["role"] == "system" and "[func_name1(params_name1=params_value1" in system["content"]
    )
    assert [
        tool["name"] for tool in json.loads(system["content"].partition("invoke.\n")[2])
    ] == list(pool.tools)
    answers = [
        m["content"]
        for r in requests
        for m in r["messages"]
        if m["content"].startswith("[{'role': 'tool'")
    ]
    assert answers and all("'name': \"add(item='" in answer for answer in answers)


def test_openai_tools_over_a_server(pool, tmp_path):
    """Documents in the official conversion stand where the server expects tools."""
    with ScriptedServer(lambda request: "all done") as server:
        with Models(
            "rollout", ServiceOptions(base_url=server.url, journal=str(tmp_path))
        ) as models:
            list(
                rollouts(
                    tiny_models.shop_tasks(SHOP, 1),
                    make_policy("m", models=models, prompt="openai"),
                    pool,
                )
            )
        (tool, *_) = server.requests[0]["tools"]
    assert tool["function"]["description"].endswith(
        " Note that the provided function is in Python 3 syntax."
    )
    assert tool["function"]["parameters"]["type"] == "object"


def test_qwen_fc_in_a_local_model(pool):
    """An episode's tokens begin with the official rendering, whatever the chat template."""
    told, tokenizer = style("qwen-fc"), tiny_models.tokenizer(tiny_models.PLAIN)
    random = tiny_models.llama(len(tokenizer), context=8000)
    model = LocalModel(random, tokenizer, max_turn_tokens=8, render=told.render)
    policy = LocalPolicy("random", model, 1.0, told)
    (rollout,) = rollouts(tiny_models.shop_tasks(SHOP, 1), policy, pool, keep_tokens=True)
    first = told.render(rollout.messages[:1], told.schemas(list(pool.tools.values())))
    assert first.startswith("<|im_start|>system\n# Tools\n") and first.endswith(
        "<|im_start|>assistant\n"
    )
    assert model.chat.decode(rollout.token_ids).startswith(first)
    assert rollout.policy == "random (qwen-fc)"
    assert rollout.mask.index(1) == len(model.chat.encode(first))


def test_unusable_styles(pool):
    """An unknown style, and a whole text for a server that renders its own, are usage errors."""
    with pytest.raises(UsageError, match="there are: tools, openai, prompting, qwen-fc"):
        make_policy("solution", prompt="chatml")
    with pytest.raises(UsageError, match="use a local model"):
        make_policy("m", models=object(), prompt="qwen-fc")


@pytest.mark.parametrize("prompt", ["openai", "prompting"])
def test_styles_of_bfcl_are_refused_where_the_tools_are_not_its_own(coevolve, prompt):
    """Desk has no documents of that kind: exit 2, before a reply is asked for."""
    with ScriptedServer(lambda request: "all done") as server:
        how = [
            "--env",
            "desk",
            "--split",
            "dev",
            "--limit",
            "2",
            "--model",
            "m",
            "--base-url",
            server.url,
            "--prompt-style",
            prompt,
        ]
        results = [coevolve(command, *how, check=False) for command in ("rollout", "evaluate")]
        assert not server.requests
    for result in results:
        assert result.returncode == 2 and b"are BFCL's, and the tool" in result.stderr


def test_the_option(coevolve):
    """`--prompt-style` is known to the commands that run a policy."""
    result = coevolve(
        "rollout",
        "--env",
        "desk",
        "--split",
        "dev",
        "--limit",
        "1",
        "--prompt-style",
        "none",
        check=False,
    )
    assert result.returncode == 2 and b"openai, prompting or qwen-fc, not 'none'" in result.stderr
    assert (
        b"--prompt-style" in coevolve("train", "--help-all").stdout
        and b"--prompt-style" in coevolve("evaluate", "--help-all").stdout
    )


FORMS = {
    "tools": 'Write {"name": "<tool>", "arguments": {...}} as JSON.',
    "openai": "Make a tool call: ",
    "prompting": "Write [func_name(params_name=params_value)]",
    "qwen-fc": "Write <tool_call>\n{",
}
NATIVE_REPLY = {
    "role": "assistant",
    "content": "",
    "tool_calls": [{"id": "1", "function": {"name": "look", "arguments": "{"}}],
}


def hint(name: str, message: dict, *, tools_resent: bool = False) -> str:
    """What answers a reply that cannot be read, under a style."""
    episode = Episode(
        Task(id="t", env="e", query=["first"], start=Start()),
        EpisodeLimits(),
        tools=TOOLS,
        style=style(name),
    )
    episode.tools_resent = tools_resent
    episode.open(SimpleNamespace(opened=Opened(tools=list(TOOLS))))
    episode.reply(PolicyReply(message))
    assert not episode.done and episode.steps[0].observation == episode.messages[-1]["content"]
    return episode.messages[-1]["content"]


@pytest.mark.parametrize("name", STYLES)
@pytest.mark.parametrize(
    "text",
    [
        "I will call look() now.",
        "<tool_call>look</tool_call>\n[take()]",
        '{"name": "look", "arg',
        "[look(), 5]",
        "look",
        "<tool_call>\n",
        "<think>x",
    ],
)
def test_a_hint_tells_the_form_of_its_style(name, text):
    """A hint asks for calls as the prompt does, and for no other form."""
    said = hint(name, {"role": "assistant", "content": text})
    assert FORMS[name] in said and not any(
        form in said for other, form in FORMS.items() if other != name
    )


def test_a_hint_to_calls_of_an_api():
    """Where the tools go by an API, or a reply used one, the hint asks for its calls."""
    assert "Make a tool call: " in hint(
        "tools", {"role": "assistant", "content": "look"}, tools_resent=True
    )
    for name in ("tools", "openai"):
        mixed = {
            **NATIVE_REPLY,
            "content": "[take()]",
            "tool_calls": [{"id": "1", "function": {"name": "look", "arguments": "{}"}}],
        }
        said = hint(name, mixed)
        assert "in two forms" in said and "Make a tool call: " in said and "as JSON" not in said
        assert "as JSON" not in hint(name, NATIVE_REPLY)


@pytest.mark.parametrize("name", STYLES)
def test_tools_of_a_later_turn(name):
    """A tool that a turn adds is offered from it on, in its user message or among the tools."""
    task = Task(id="t", env="e", query=["first", "second"], start=Start())
    messages = {}
    for tools_resent in (False, True):
        episode = Episode(task, EpisodeLimits(), tools=TOOLS, style=style(name))
        episode.tools_resent = tools_resent
        episode.open(SimpleNamespace(opened=Opened(tools=["look"], later={"1": ["take"]})))
        assert episode.offered() == ["look"] and "does take" not in str(episode.messages)
        episode.reply(PolicyReply({"role": "assistant", "content": "done"}))
        assert episode.offered() == ["look", "take"]
        messages[tools_resent] = episode.messages[-1]["content"]
        assert messages[tools_resent].endswith("second")
    assert "does take" in messages[False] and "does look" not in messages[False]
    assert ("does take" in messages[True]) == (name in ("prompting", "qwen-fc"))
