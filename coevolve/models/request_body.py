"""The body of a request in the form that a server takes, which its refusals tell.

A server is asked in the plain form first: with a schema for a structured answer, with results of
calls from a reply's text as `tool` messages, without the reasoning of earlier replies, and with
every field of theirs that is not known here as it came (a signature without which some servers
refuse the conversation). A refusal that names one of these by its field is answered with another
form (`learned`), in which every later request goes out. Reasoning is sent back to a server that
asks for it only: the templates of most drop it, and some servers refuse it. Tool names that the API
refuses (dots) are sent with `__` in place of the other characters and mapped back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from coevolve.models.chat import KNOWN_CALL_FIELDS, KNOWN_FIELDS, ChatRequest, Message

REFUSED_FORM = (400, 404, 422, 501)  # HTTP statuses by which servers refuse what they do not know
_ALLOWED = re.compile(r"[A-Za-z0-9_-]{1,64}")
_FORMAT = re.compile(r"response_format|json_schema|guided|structured", re.I)
_TOOL = re.compile(r"\btool", re.I)
_REASONING = re.compile(r"\breasoning_content\b|(?<=['\"`])reasoning(?=['\"`])")
# Nine letters and digits, which is what some templates ask of an id.
_NO_ID = "textcall0"


class RequestForm(NamedTuple):
    """What a server takes."""

    schema: bool = True
    lone_results: bool = True  # `tool` messages for calls without an id; else they are the user's
    unknown_fields: bool = True
    reasoning: str = ""  # The field in which it wants the reasoning of earlier replies back

    def learned(self, request: ChatRequest, status: int | None, message: str) -> RequestForm:
        """The form that answers a refusal of the request in this one; the same where none does."""
        if status not in REFUSED_FORM:
            return self
        replies = [m for m in request.messages if m["role"] == "assistant"]
        named = _REASONING.search(message)
        if named and replies and not self.reasoning:
            return self._replace(reasoning=named[0])
        if request.schema and self.schema and _FORMAT.search(message):
            return self._replace(schema=False)
        sent = set(_unknown_fields(replies)) if self.unknown_fields else set()
        if any(re.search(rf"\b{re.escape(name)}\b", message) for name in sent):
            return self._replace(unknown_fields=False)
        lone = self.lone_results and any(map(_is_lone_result, request.messages))
        return self._replace(lone_results=False) if lone and _TOOL.search(message) else self

    def body(self, request: ChatRequest, names: dict[str, str]) -> dict[str, Any]:
        """The request as the API takes it; a value of None is a field that is not sent."""
        body: dict[str, Any] = {
            "model": request.model,
            "messages": [self._message(message, names) for message in request.messages],
            "temperature": request.temperature,
            "max_tokens": request.max_tokens,
            "seed": request.seed,
        }
        if request.tools:
            body["tools"] = [_renamed(tool, names) for tool in request.tools]
        if request.schema and self.schema:
            body["response_format"] = {"type": "json_schema", "json_schema": request.schema}
        return {name: value for name, value in (body | request.extra).items() if value is not None}

    def _message(self, message: Message, names: dict[str, str]) -> Message:
        if _is_lone_result(message):
            tool = {"role": "tool", "tool_call_id": _NO_ID}
            return {
                **(tool if self.lone_results else {"role": "user"}),
                "content": message["content"],
            }
        if message["role"] != "assistant":
            return message
        sent = {name: value for name, value in message.items() if name != "reasoning"}
        if message.get("tool_calls"):
            sent["tool_calls"] = [_renamed(call, names) for call in message["tool_calls"]]
        if not self.unknown_fields:
            sent = _known(sent)
        # A server that asks for the field wants it in every reply, empty where there was none.
        return sent | ({self.reasoning: message.get("reasoning", "")} if self.reasoning else {})


def server_names(tools: list[dict[str, Any]]) -> dict[str, str]:
    """Tool name → the name the API accepts, different for every tool."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for tool in tools:
        name = tool["function"]["name"]
        sent = name if _ALLOWED.fullmatch(name) else re.sub(r"[^A-Za-z0-9_-]", "__", name)[:64]
        while sent in taken:
            sent = f"{sent[:60]}_{len(names)}"
        names[name] = sent
        taken.add(sent)
    return names


def _renamed(named: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """A tool or a call, with the server's name of its function."""
    function = named["function"]
    name = names.get(function["name"], function["name"])
    return named if name == function["name"] else {**named, "function": {**function, "name": name}}


def _is_lone_result(message: Message) -> bool:
    """Tells whether it is the result of a call without an id, read from a reply's text."""
    return message["role"] == "tool" and "tool_call_id" not in message


def _unknown_fields(replies: list[Message]) -> Iterator[str]:
    """The fields of earlier replies, and of their calls, that are the server's own."""
    for message in replies:
        yield from message.keys() - KNOWN_FIELDS
        for call in message.get("tool_calls") or []:
            yield from call.keys() - KNOWN_CALL_FIELDS


def _known(message: Message) -> Message:
    """The reply without the fields that are a server's own."""
    known = {name: value for name, value in message.items() if name in KNOWN_FIELDS}
    if calls := known.get("tool_calls"):
        known["tool_calls"] = [
            {name: value for name, value in call.items() if name in KNOWN_CALL_FIELDS}
            for call in calls
        ]
    return known
