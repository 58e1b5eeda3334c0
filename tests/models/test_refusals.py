"""What servers refuse, in their own words: a conversation that is too long, a form of the request,
an address; and replies whose fields a server wants back as it gave them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from scripted_server import Fault, ScriptedServer

from coevolve.errors import CoevolveError
from coevolve.models.chat import ChatReply, ChatRequest, ContextFull
from coevolve.models.options import ServiceOptions
from coevolve.models.service import Models

WORDINGS = json.loads(Path(__file__).with_name("refusals.json").read_text())
CALL = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
USER = {"role": "user", "content": "list"}


def say(url: str, tmp_path: Path, messages: list, **options) -> ChatReply:
    request = ChatRequest(model="m", messages=messages, seed=7, **options)
    journal = str(tmp_path / "journal")
    with Models("s", ServiceOptions(base_url=url, journal=journal)) as models:
        (reply,) = models.each([request], models.chat)
        return reply


def refusal(status: int, message: str, code: str | None) -> Fault:
    body = json.dumps({"error": {"message": message, "code": code, "type": "BadRequestError"}})
    return Fault(status, {"retry-after-ms": "1"}, body=body.encode())


@pytest.mark.parametrize(
    ("kind", "row"),
    [(kind, row) for kind, rows in WORDINGS.items() for row in rows],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_a_conversation_that_is_too_long_is_told_from_other_refusals(tmp_path, kind, row):
    """In the words of thirty servers, and none of the refusals that only sound like it."""
    _, status, message, code = row
    longest = 100000 if "100000" in message else 256
    with ScriptedServer(lambda _: refusal(status, message, code)) as server:
        with pytest.raises(CoevolveError) as caught:
            say(server.url, tmp_path, [USER], max_tokens=longest)
    assert isinstance(caught.value, ContextFull) == (kind == "too_long")
    assert kind == "too_long" or " ".join(message.split())[:50] in str(caught.value)


def test_an_error_in_a_list_is_read(tmp_path):
    """As Gemini's address for OpenAI clients has it."""
    body = json.dumps([{"error": {"code": 400, "message": "no such thing"}}]).encode()
    with ScriptedServer(lambda _: Fault(400, body=body)) as server:
        with pytest.raises(CoevolveError, match=r"HTTP 400\): no such thing$"):
            say(server.url, tmp_path, [USER])


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (Fault(404), r"HTTP 404\): scripted.*; the address has no /v1: try http://127.*:\d+/v1$"),
        (
            Fault(200, {"Content-Type": "text/html; charset=utf-8"}, body=b"<html>"),
            r"the answer is a web page, and no API \(text/html\); the address has no /v1: try http",
        ),
        (
            Fault(200, {"Content-Type": "text/event-stream"}, body=b'data: {"choices": []}\n\n'),
            r"the answer is a stream, and whole answers are what is read here \(text/event-stream",
        ),
        (
            Fault(400, message="This model only support stream mode"),
            "only support stream mode.*; whole answers are what is read here: name a server",
        ),
    ],
    ids=["404", "page", "stream", "stream only"],
)
def test_a_wrong_address_or_a_streaming_server_is_said(tmp_path, fault, says):
    """In one line, with what helps, and as an error of the server."""
    with ScriptedServer(lambda _: fault) as server:
        with pytest.raises(CoevolveError, match=says) as caught:
            say(server.url.removesuffix("/v1"), tmp_path, [USER])
    assert type(caught.value) is CoevolveError and "environment" not in str(caught.value)


def test_an_address_with_a_version_gets_no_advice(tmp_path):
    """A model that is not there is no matter of the address."""
    with ScriptedServer(lambda _: Fault(404, message="no model m")) as server:
        with pytest.raises(CoevolveError, match="no model m") as caught:
            say(server.url, tmp_path, [USER])
    assert "/v1: try" not in str(caught.value)


SIGNED = {
    "content": None,
    "reasoning_details": [{"type": "signature", "data": "abc"}],
    "annotations": [],
    "audio": None,
    "tool_calls": [{**CALL, "index": 0, "extra_content": {"google": {"thought_signature": "s1"}}}],
}


def after(reply: ChatReply) -> list[dict]:
    return [USER, reply.message, {"role": "tool", "tool_call_id": "c1", "content": "a.txt"}]


def test_unknown_fields_go_back_as_they_came(tmp_path):
    """A server that signs its calls refuses a conversation without the signature; its other fields
    come back, too, and empty ones do not. The journal has them: a rerun pays nothing."""

    def answer(request):
        if len(request["messages"]) == 1:
            return SIGNED
        said = request["messages"][1]
        if said["tool_calls"][0].get("extra_content") != SIGNED["tool_calls"][0]["extra_content"]:
            return Fault(400, message="Function call is missing a thought_signature")
        return "done"

    with ScriptedServer(answer) as server:
        for _ in range(2):
            reply = say(server.url, tmp_path, [USER])
            assert say(server.url, tmp_path, after(reply)).text == "done"
        first, second = server.requests
    assert second["messages"][1] == {
        "role": "assistant",
        "content": "",
        "tool_calls": [{**CALL, "extra_content": {"google": {"thought_signature": "s1"}}}],
        "reasoning_details": SIGNED["reasoning_details"],
    }


def test_a_server_that_refuses_its_own_fields_is_asked_without(tmp_path):
    """Once it has named one of them; what is known of the reply still goes."""

    def answer(request):
        if len(request["messages"]) == 1:
            return SIGNED
        if "extra_content" in json.dumps(request["messages"]):
            return Fault(422, message="messages.1.tool_calls.0.extra_content: Extra inputs")
        return "done"

    with ScriptedServer(answer) as server:
        reply = say(server.url, tmp_path, [USER])
        assert say(server.url, tmp_path, after(reply)).text == "done"
        assert len(server.requests) == 3
        assert server.requests[2]["messages"][1] == {
            "role": "assistant",
            "content": "",
            "tool_calls": [CALL],
        }


@pytest.mark.parametrize(
    "wants",
    [
        "Missing `reasoning_content` field in the assistant message at message index 1. See #tool",
        "thinking is enabled but reasoning_content is missing in assistant tool call message",
        None,
    ],
)
def test_reasoning_goes_back_where_it_is_asked_for(tmp_path, wants):
    """Under the name that the refusal has, empty where a reply had none; nobody else gets it."""

    def answer(request):
        if len(request["messages"]) == 1:
            return {"content": "", "reasoning": "I shall list", "tool_calls": [CALL]}
        replies = [m for m in request["messages"] if m["role"] == "assistant"]
        if wants and not all("reasoning_content" in reply for reply in replies):
            return Fault(400, message=wants)
        return "done"

    with ScriptedServer(answer) as server:
        reply = say(server.url, tmp_path, [USER])
        assert reply.message["reasoning"] == "I shall list"
        later = [*after(reply), {"role": "assistant", "content": "hm"}, USER]
        assert say(server.url, tmp_path, later).text == "done"
        sent = server.requests[-1]["messages"]
        assert len(server.requests) == (3 if wants else 2)
    got = [m.get("reasoning_content") for m in sent if m["role"] == "assistant"]
    assert got == (["I shall list", ""] if wants else [None, None])
    assert not any("reasoning" in message for message in sent)


def test_secrets_are_cut_out_of_unknown_fields(tmp_path, monkeypatch):
    """At any depth, in names too; a field that is nested without end is not kept."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-key")
    deep: list = []
    for _ in range(200):
        deep = [deep]
    message = {
        "content": "hi",
        "own": {"a": [{"sk-planted-key": "my sk-planted-key"}, 1]},
        "deep": deep,
        "tool_calls": [{**CALL, "extra_content": "sk-planted-key"}],
    }
    with ScriptedServer(lambda _: message) as server:
        reply = say(server.url, tmp_path, [USER])
    assert reply.unknown == {"own": {"a": [{"***": "my ***"}, 1]}}
    assert reply.tool_calls == [{**CALL, "extra_content": "***"}]
    kept = "".join(path.read_text() for path in (tmp_path / "journal").glob("*.jsonl"))
    assert "planted" not in kept and '"own"' in kept
