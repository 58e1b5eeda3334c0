"""What a chat completion is read as, and what addresses a call."""

from __future__ import annotations

import json

import msgspec
import pytest
from msgspec.structs import replace

from coevolve.models.chat import UNANSWERED, BadReply, ChatReply, ChatRequest, read_reply
from coevolve.records import Usage


def body(finish="stop", usage=None, **message) -> bytes:
    return json.dumps(
        {"choices": [{"message": message, "finish_reason": finish}], "usage": usage}
    ).encode()


@pytest.mark.parametrize(
    ("message", "text", "reasoning"),
    [
        ({"content": "plain"}, "plain", ""),
        ({"content": "<think>hm\nhm</think>\n\nthe answer"}, "the answer", "hm\nhm"),
        ({"content": "hm</think>the answer"}, "the answer", "hm"),
        ({"content": "the answer", "reasoning_content": "hm"}, "the answer", "hm"),
        ({"content": "the answer", "reasoning": "hm"}, "the answer", "hm"),
        ({"content": '{"a": "x</think>y"}'}, '{"a": "x</think>y"}', ""),
        (
            {"content": "about the <think> tag and </think>"},
            "about the <think> tag and </think>",
            "",
        ),
        (
            {"content": [{"type": "text", "text": "in "}, {"type": "text", "text": "parts"}]},
            "in parts",
            "",
        ),
        ({"content": None, "refusal": "I won't"}, "I won't", ""),
        ({"content": "half \ud83d", "role": "assistant"}, "half ?", ""),
    ],
)
def test_text_and_reasoning(message, text, reasoning):
    """Reasoning comes from its field or from a leading block; nothing else is cut out of a text."""
    said = read_reply(body(**message))
    assert (said.text, said.reasoning) == (text, reasoning)


def test_thinking_that_was_cut_off_is_no_text():
    """A reply that spent its tokens on thinking is truncated, and says nothing."""
    said = read_reply(body("length", content="<think>so much to"))
    assert said.truncated and said.text == "" and said.reasoning == "so much to"


def test_tool_calls():
    """Names are mapped back; arguments are text, whatever the server sends; a call without an id
    gets one."""
    calls = [
        {"id": "a", "type": "function", "function": {"name": "farm__set", "arguments": '{"x": 1}'}},
        {"function": {"name": "show", "arguments": {"y": 2}}},
        {"function": {"name": "other", "arguments": None}},
    ]
    said = read_reply(body("tool_calls", content=None, tool_calls=calls), {"farm__set": "farm.set"})
    assert [c["function"]["name"] for c in said.tool_calls] == ["farm.set", "show", "other"]
    assert [c["function"]["arguments"] for c in said.tool_calls] == ['{"x": 1}', '{"y": 2}', ""]
    assert len({c["id"] for c in said.tool_calls}) == 3
    assert said.message == {"role": "assistant", "content": "", "tool_calls": said.tool_calls}


def test_usage():
    """Prompt, completion and cached tokens; servers leave them out or send nulls."""
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 3,
        "prompt_tokens_details": {"cached_tokens": 8},
    }
    said = read_reply(body(content="x", usage=usage))
    assert (said.usage, said.cached_tokens) == (Usage(10, 3), 8)
    for usage in (None, {"prompt_tokens": None}, {"prompt_tokens_details": None}):
        assert read_reply(body(content="x", usage=usage)).usage == Usage()


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b'{"choices": []}', "no choice"),
        (b'{"id": 3}', "no choice"),
        (body(content=""), "empty"),
        (body(content=" \n"), "empty"),
        (body("content_filter", content=None), "content_filter"),
        (b'{"choices": [{"message": null}]}', "no chat completion"),
        (b'{"choices": [{"mess', "no chat completion"),
        (b"<html>gateway</html>", "no chat completion"),
        (b'{"choices": [{"message": "text"}]}', "no chat completion"),
        (b"", "no chat completion"),
    ],
)
def test_no_reply(answer, says):
    """An answer without text, calls and reasoning is an error that says what it was."""
    with pytest.raises(BadReply, match=says) as caught:
        read_reply(answer)
    assert str(caught.value).startswith(UNANSWERED)


def test_silence_is_a_reply_where_the_request_says_so():
    """Empty and ended by the model: a policy's reply. What a filter or a broken server left empty
    is none."""
    for content in ("", None):
        said = read_reply(body(content=content), may_be_silent=True)
        assert (said.text, said.reasoning, said.tool_calls, said.truncated) == ("", "", [], False)
    for answer in (
        b'{"choices": []}',
        body("content_filter", content=None),
        b'{"choices": [{"message": null}]}',
    ):
        with pytest.raises(BadReply):
            read_reply(answer, may_be_silent=True)
    asked = ChatRequest(model="m", messages=[])
    assert asked.key() == replace(asked, may_be_silent=True).key()


def test_reasoning_alone_is_a_reply():
    """A model that thought and said nothing answered: its message is kept, whichever way its
    reasoning came."""
    for message in (
        {"content": "<think>only this</think>"},
        {"content": None, "reasoning_content": "only this"},
    ):
        said = read_reply(body(**message))
        assert (said.text, said.reasoning, said.tool_calls) == ("", "only this", [])


def test_reasoning_that_never_ends_stays_in_the_text():
    """Not cut off and not closed: what follows the mark is for the parser to judge."""
    said = read_reply(body(content="<think>so much to {}"))
    assert (said.text, said.reasoning, said.truncated) == ("<think>so much to {}", "", False)


def tagged(*calls: str) -> str:
    return "\n".join(f"<tool_call>\n{call}\n</tool_call>" for call in calls)


def calling(**function: object) -> dict[str, object]:
    """A message with one tool call."""
    return {"tool_calls": [{"function": function}]}


NONE = {"arguments": "{}"}
GOOD = {"id": "a", "function": {"name": "ls", **NONE}}
BROKEN = {"function": {"name": "cd", "arguments": '{"a": '}}
ODD = {
    "older function_call": (
        {"function_call": {"name": "ls", "arguments": '{"a": 1}'}},
        "",
        [("ls", '{"a": 1}')],
    ),
    "arguments are an object": (calling(name="ls", arguments={"a": 1}), "", [("ls", '{"a": 1}')]),
    "not a list": ({"tool_calls": GOOD}, "", [("ls", "{}")]),
    "without a function": ({"tool_calls": [{"name": "ls", **NONE}]}, "", [("ls", "{}")]),
    "id is a number": ({"tool_calls": [{**GOOD, "id": 3}]}, "", [("ls", "{}")]),
    "no name": (calling(name=None, **NONE), tagged('{"name": null, "arguments": "{}"}'), []),
    "empty name": (
        {"content": "Now.", **calling(name="", **NONE)},
        "Now.\n" + tagged('{"name": "", "arguments": "{}"}'),
        [],
    ),
    "a name that no API takes": (
        calling(name="functions.ls", **NONE),
        tagged('{"name": "functions.ls", "arguments": "{}"}'),
        [],
    ),
    "arguments are no JSON": (
        {"tool_calls": [GOOD, BROKEN]},
        tagged('{"name": "ls", "arguments": "{}"}', '{"name": "cd", "arguments": "{\\"a\\": "}'),
        [],
    ),
    "arguments are a list": (
        calling(name="cd", arguments=[1]),
        tagged('{"name": "cd", "arguments": [1]}'),
        [],
    ),
    "a text": ({"tool_calls": "ls()"}, tagged('"ls()"'), []),
    "nulls": ({"tool_calls": [None]}, tagged("null"), []),
    "numbers": ({"content": 5, "tool_calls": 0}, "5", []),
    "parts": ({"content": ["a", {"type": "text", "text": "b"}, {"type": "image"}]}, "ab", []),
    "odd reasoning": ({"content": "x", "reasoning": {"steps": []}}, "x", []),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_messages_are_replies(name):
    """A readable call is one; what no server would take back is text in tags; nothing of it is an
    error, and all can be kept."""
    message, text, calls = ODD[name]
    said = read_reply(body(**message))
    assert said.text == text
    assert [(c["function"]["name"], c["function"]["arguments"]) for c in said.tool_calls] == calls
    assert msgspec.json.decode(msgspec.json.encode(said), type=ChatReply) == said
    for call in said.tool_calls:
        assert isinstance(json.loads(call["function"]["arguments"]), dict) and isinstance(
            call["id"], str
        )


@pytest.mark.parametrize(
    "usage", ["many", [1], {"prompt_tokens": "7"}, {"prompt_tokens": 2.0, "completion_tokens": -1}]
)
def test_odd_usage_loses_no_reply(usage):
    """Tokens that are no numbers count as none."""
    assert read_reply(body(content="x", usage=usage)).usage in (Usage(), Usage(2, 0))


def test_the_key_is_all_that_decides_the_answer():
    """Each part of a request changes its key, and the order of a dictionary doesn't."""
    request = ChatRequest(model="m", messages=[{"role": "user", "content": "hi"}])
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
