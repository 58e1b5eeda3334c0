"""What a chat completion is read as, and what addresses a call."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from coevolve.models.chat import BadReply, Request, reply
from coevolve.records import Usage


def body(finish="stop", usage=None, **message) -> bytes:
    return json.dumps({"choices": [{"message": message, "finish_reason": finish}], "usage": usage}).encode()


@pytest.mark.parametrize(
    ("message", "text", "reasoning"),
    [
        ({"content": "plain"}, "plain", ""),
        ({"content": "<think>hm\nhm</think>\n\nthe answer"}, "the answer", "hm\nhm"),
        ({"content": "hm</think>the answer"}, "the answer", "hm"),
        ({"content": "the answer", "reasoning_content": "hm"}, "the answer", "hm"),
        ({"content": "the answer", "reasoning": "hm"}, "the answer", "hm"),
        ({"content": '{"a": "x</think>y"}'}, '{"a": "x</think>y"}', ""),
        ({"content": "about the <think> tag and </think>"}, "about the <think> tag and </think>", ""),
        ({"content": [{"type": "text", "text": "in "}, {"type": "text", "text": "parts"}]}, "in parts", ""),
        ({"content": None, "refusal": "I won't"}, "I won't", ""),
        ({"content": "half \ud83d", "role": "assistant"}, "half ?", ""),
    ],
)
def test_text_and_reasoning(message, text, reasoning):
    """Reasoning comes from its field or from a leading block; nothing else is cut out of a text."""
    said = reply(body(**message))
    assert (said.text, said.reasoning) == (text, reasoning)


def test_thinking_that_was_cut_off_is_no_text():
    """A reply that spent its tokens on thinking is truncated, and says nothing."""
    said = reply(body("length", content="<think>so much to"))
    assert said.truncated and said.text == "" and said.reasoning == "so much to"


def test_tool_calls():
    """Names are mapped back; arguments are text, whatever the server sends; a call without an id gets one."""
    calls = [
        {"id": "a", "type": "function", "function": {"name": "farm__set", "arguments": '{"x": 1}'}},
        {"function": {"name": "show", "arguments": {"y": 2}}},
        {"function": {"name": "other", "arguments": None}},
    ]
    said = reply(body("tool_calls", content=None, tool_calls=calls), {"farm__set": "farm.set"})
    assert [c["function"]["name"] for c in said.tool_calls] == ["farm.set", "show", "other"]
    assert [c["function"]["arguments"] for c in said.tool_calls] == ['{"x": 1}', '{"y": 2}', ""]
    assert len({c["id"] for c in said.tool_calls}) == 3
    assert said.message == {"role": "assistant", "content": "", "tool_calls": said.tool_calls}


def test_usage():
    """Prompt, completion and cached tokens; servers leave them out or send nulls."""
    usage = {"prompt_tokens": 10, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 8}}
    said = reply(body(content="x", usage=usage))
    assert (said.usage, said.cached_tokens) == (Usage(10, 3), 8)
    for usage in (None, {"prompt_tokens": None}, {"prompt_tokens_details": None}):
        assert reply(body(content="x", usage=usage)).usage == Usage()


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b'{"choices": []}', "no choice"),
        (b'{"id": 3}', "no choice"),
        (body(content=""), "empty"),
        (body(content=" \n"), "empty"),
        (body("content_filter", content=None), "content_filter"),
        (body(content="<think>only this</think>"), "empty"),
        (b'{"choices": [{"mess', "no chat completion"),
        (b"<html>gateway</html>", "no chat completion"),
        (b'{"choices": [{"message": "text"}]}', "no chat completion"),
        (b"", "no chat completion"),
    ],
)
def test_no_reply(answer, says):
    """An answer without text and calls is an error that says what it was."""
    with pytest.raises(BadReply, match=says):
        reply(answer)


def test_the_key_is_all_that_decides_the_answer():
    """Each part of a request changes its key, and the order of a dictionary doesn't."""
    request = Request(model="m", messages=[{"role": "user", "content": "hi"}])
    others = [
        replace(request, model="n"),
        replace(request, messages=[{"role": "user", "content": "ho"}]),
        replace(request, tools=[{"type": "function"}]),
        replace(request, schema={"type": "object"}),
        replace(request, temperature=0.0),
        replace(request, max_tokens=1),
        replace(request, sample=1),
        replace(request, seed=1),
        replace(request, prompt_version="v"),
        replace(request, extra={"top_p": 1}),
    ]
    assert len({r.key() for r in [request, *others]}) == len(others) + 1
    assert replace(request, messages=[{"content": "hi", "role": "user"}]).key() == request.key()
