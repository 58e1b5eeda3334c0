"""A server's improper messages are read or answered with a hint, paid once, no env_error."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from scripted_server import ScriptedServer

from coevolve.agents.rollout import make_policy, rollouts
from coevolve.environments.client import Pool
from coevolve.models.options import ServiceOptions
from coevolve.models.service import Models
from tiny_models import shop_tasks

SHOP = f"{sys.executable} {Path(__file__).parent.parent / 'grocer.py'}"
TEA = {"name": "add", "arguments": '{"item": "tea"}'}
MALFORMED = {
    "older function_call": ({"content": None, "function_call": TEA}, True),
    "arguments are an object": (
        {
            "content": None,
            "tool_calls": [{"function": {"name": "add", "arguments": {"item": "tea"}}}],
        },
        True,
    ),
    "not a list": ({"content": None, "tool_calls": {"function": TEA}}, True),
    "a prefix": (
        {"content": None, "tool_calls": [{"function": {**TEA, "name": "functions.add"}}]},
        True,
    ),
    "no name": (
        {"content": None, "tool_calls": [{"id": "1", "function": {**TEA, "name": None}}]},
        False,
    ),
    "empty name": (
        {"content": None, "tool_calls": [{"id": "1", "function": {**TEA, "name": ""}}]},
        False,
    ),
    "broken arguments": (
        {
            "content": None,
            "tool_calls": [{"id": "1", "function": {"name": "add", "arguments": '{"item": '}}],
        },
        False,
    ),
    "a text for calls": ({"content": None, "tool_calls": "add tea"}, False),
    "unclosed reasoning": ({"content": "<think>I add tea."}, False),
    "reasoning alone": ({"content": None, "reasoning_content": "I add tea."}, False),
    "a foreign form": (
        {"content": '<invoke name="add"><parameter name="item">tea</parameter></invoke>'},
        True,
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_messages_of_a_server(tmp_path, name):
    """The call runs, or a hint goes back; the next message is proper; a rerun pays nothing."""
    message, readable = MALFORMED[name]

    def answer(request):
        said = [m for m in request["messages"] if m["role"] != "system"]
        if len(said) == 1:
            return message
        return (
            "all done"
            if readable or len(said) > 4
            else {
                "content": None,
                "tool_calls": [{"id": "c1", "type": "function", "function": TEA}],
            }
        )

    task = shop_tasks(SHOP, 1)[0]
    with ScriptedServer(answer) as server, Pool(SHOP) as pool:
        for calls in (2 if readable else 3, 0):
            before = len(server.requests)
            with Models(
                "s", ServiceOptions(base_url=server.url, journal=str(tmp_path / "journal"))
            ) as models:
                (played,) = rollouts([task], make_policy("m", models=models), pool)
            assert len(server.requests) - before == calls
            assert (played.success, played.stop_reason, played.tools) == (True, "done", ["add"])
            assert readable or played.steps[0].error in ("bad_call", "bad_json", "only_reasoning")
    for sent in (
        call
        for request in server.requests
        for m in request["messages"]
        for call in m.get("tool_calls", [])
    ):
        assert sent["function"]["name"] == "add" and json.loads(sent["function"]["arguments"]) == {
            "item": "tea"
        }
